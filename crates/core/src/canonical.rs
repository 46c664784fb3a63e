//! JSON in a form that does not depend on the order of keys: what two payloads are compared by.
//!
//! Keys stand in the order of their bytes, without space between. Numbers and strings stay as they were written: `1.0` is not
//! `1`. `windlass.canonical` in PostgreSQL is a second copy, so what PostgreSQL cannot read as text (a NUL or a surrogate by
//! its number) leaves the whole document as it is.

/// The bytes to compare. What is no JSON stays as it is.
pub(crate) fn canonical(bytes: &[u8]) -> Vec<u8> {
    let mut reader = Reader { bytes, at: 0 };
    let sorted = if has_odd_escape(bytes) { None } else { reader.value() };
    sorted.unwrap_or_else(|| bytes.to_vec())
}

/// Whether a string may hold what PostgreSQL cannot read.
fn has_odd_escape(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|window| {
        let [b'\\', b'u', first, second, ..] = window else { return false };
        let is_surrogate =
            first.eq_ignore_ascii_case(&b'd') && matches!(second, b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F');
        is_surrogate || &window[2..] == b"0000"
    })
}

/// JSON that was checked when it came in, so its depth is bounded.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(<[u8]>::to_vec),
            _ => {
                let rest = &self.bytes[self.at..];
                let end = rest.iter().position(|b| b" \t\n\r,]}".contains(b)).unwrap_or(rest.len());
                self.at += end;
                (end > 0).then(|| rest[..end].to_vec())
            }
        }
    }

    fn object(&mut self) -> Option<Vec<u8>> {
        self.take(b'{')?;
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        if self.peek()? != b'}' {
            loop {
                self.peek()?;
                let key = serde_json::from_slice(self.string()?).ok()?;
                self.take(b':')?;
                members.push((key, self.value()?));
                if self.take(b',').is_none() {
                    break;
                }
            }
        }
        self.take(b'}')?;
        // Stable: a key that comes twice keeps its order.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let member =
            |(key, value): (String, Vec<u8>)| Some([serde_json::to_vec(&key).ok()?, value].join(&b':'));
        let members = members.into_iter().map(member).collect::<Option<Vec<_>>>()?;
        Some([b"{", &*members.join(&b','), b"}"].concat())
    }

    fn array(&mut self) -> Option<Vec<u8>> {
        self.take(b'[')?;
        let mut elements = Vec::new();
        if self.peek()? != b']' {
            loop {
                elements.push(self.value()?);
                if self.take(b',').is_none() {
                    break;
                }
            }
        }
        self.take(b']')?;
        Some([b"[", &*elements.join(&b','), b"]"].concat())
    }

    /// A string as it is written, with its quotes.
    fn string(&mut self) -> Option<&[u8]> {
        let from = self.at;
        self.take(b'"')?;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.bytes.get(from..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        String::from_utf8(canonical(json.as_bytes())).unwrap()
    }

    #[test]
    fn keys_are_sorted_and_the_rest_stays() {
        assert_eq!(
            text(r#" { "b" : [ 1.0 , {"z":1,"y":2} ] , "a" : "x y" } "#),
            r#"{"a":"x y","b":[1.0,{"y":2,"z":1}]}"#
        );
        assert_eq!(text(r#"{"ab":1,"a":2,"ä":3,"Z":4}"#), r#"{"Z":4,"a":2,"ab":1,"ä":3}"#);
        assert_eq!(text(r#"{"b":1,"b":2,"a":3}"#), r#"{"a":3,"b":1,"b":2}"#);
        assert_eq!(text(r#"{"\u0062":1,"a\"\\":"\u0062"}"#), r#"{"a\"\\":"\u0062","b":1}"#);
        for same in ["7", " [ ] ", "{}", "\"a\"", "null"] {
            assert_eq!(text(same), same.replace(' ', ""));
        }
    }

    #[test]
    fn what_postgresql_cannot_read_and_what_is_no_json_stays() {
        for odd in
            [r#"{"b":"\u0000","a":1}"#, r#"{"b":"\uD83D\uDE00","a":1}"#, "{\"b\":1,", "", "{\"b\":1 \"a\":2}"]
        {
            assert_eq!(text(odd), odd);
        }
    }
}
