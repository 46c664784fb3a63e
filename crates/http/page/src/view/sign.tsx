// Signing in with a key. The browser gets a cookie that scripts cannot read; the key is not kept here.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem, post, type Problem, type Session } from "../base/api.ts";
import { Icon, ProblemBox } from "../base/parts.tsx";

export function SignIn({ done }: { done: (session: Session) => void }) {
  const key = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isSending, setSending] = useState(false);
  useLayoutEffect(() => key.current!.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    try {
      done(await post<Session>("v1/session", { key: key.current!.value.trim() }));
    } catch (refusal) {
      setProblem(asProblem(refusal));
      key.current!.select();
    } finally {
      setSending(false);
    }
  };
  return (
    <form class="sign" onSubmit={submit}>
      <h1>
        <Icon name="key" />
        Sign in
      </h1>
      <p class="muted">This server asks for a key. The person who runs it makes one:</p>
      <pre class="command">windlass keys create you --role viewer --role operator --role approver</pre>
      <label class="field" for="key">
        <span>Key</span>
      </label>
      <input ref={key} id="key" type="password" name="key" autocomplete="current-password" required spellcheck={false} />
      {problem && <ProblemBox problem={problem} />}
      <button type="submit" class="main" disabled={isSending}>
        Sign in
      </button>
    </form>
  );
}
