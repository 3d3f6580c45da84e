import { useEffect, useState } from "react";
import { serverNow } from "../../api/clock";

// useNow returns the time of the server, and renders again in an interval.
export function useNow(interval: number): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}
