import { useFormat } from "../../i18n/format";
import { useNow } from "./now";

// Time shows how long ago a time was, and the time itself on hover, on focus and on paper. A value that is no time is text.
export function Time({ at }: { at: string }) {
  const format = useFormat();
  const now = useNow(10_000);
  const absolute = format.dateTime(at);
  if (absolute === at) return at;
  return (
    <time dateTime={at} title={absolute} data-absolute={absolute} tabIndex={0}>
      {format.ago(at, now)}
    </time>
  );
}
