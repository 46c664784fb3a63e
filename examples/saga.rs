//! A trip is booked in steps. The hotel is full, so what was booked before is given back, last first.
//!
//! `cargo run -p windlass --example saga [STORE-URL]`

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Backoff, Context, Error, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "trip.book", queue = "trips", output = String, max_retries = 0, timeout = Duration::from_secs(60))]
struct Trip {
    to: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/saga.db".into());
    let client = windlass::connect(&url).await?;
    let trips = [
        client.enqueue(Trip { to: "Lisbon".into() }).await?,
        client.enqueue(Trip { to: "Ghent".into() }).await?,
    ];
    let worker = Worker::new(client.clone()).queue("trips", 1).handle(book);
    let ended = async {
        for trip in trips {
            match client.wait::<Trip>(trip.id).await {
                Ok(booked) => println!("{booked}"),
                Err(Error::Ended(ended)) => {
                    client.wait_undone(trip.id).await.expect("everything is given back");
                    println!("{} {:?}", ended.message, ended.details::<Full>());
                }
                Err(error) => println!("{error}"),
            }
        }
    };
    worker.run_until(ended).await?;
    Ok(())
}

/// What a hotel says that has no room.
#[derive(Debug, Serialize, Deserialize)]
struct Full {
    rooms: u32,
}

async fn book(trip: Trip, ctx: Context) -> Result<String, HandlerError> {
    let backoff = Backoff { base_ms: 10, ..Backoff::default() };
    let mut tries = 0;
    let flight = ctx
        .step("flight", || {
            tries += 1;
            let busy = tries == 1;
            let to = trip.to.clone();
            async move {
                if busy {
                    Err(HandlerError::retry("the airline is busy"))
                } else {
                    Ok(format!("a flight to {to}"))
                }
            }
        })
        .timeout(Duration::from_secs(10))
        .retry(backoff, 3)
        .undo("return-flight", give_back)
        .await?;
    let car = ctx
        .step("car", || async { Ok::<_, HandlerError>("a car".to_owned()) })
        .undo("return-car", give_back)
        .await?;
    if trip.to == "Ghent" {
        return Err(HandlerError::permanent("the hotel is full")
            .code("hotel_full")
            .details(&Full { rooms: 0 }));
    }
    Ok(format!("booked {flight} and {car}"))
}

async fn give_back(ticket: String) -> Result<(), HandlerError> {
    println!("given back: {ticket}");
    Ok(())
}
