import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { useAnnounce } from "../a11y/live";

// Copy copies a text. Without a secure context a browser has no clipboard, so the text stays selectable.
export function Copy({ text, label }: { text: string; label: string }) {
  const t = useTranslations("states");
  const announce = useAnnounce();
  const [copied, setCopied] = useState(false);
  if (typeof navigator.clipboard === "undefined") return null;
  const copy = () =>
    void navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      announce(t("copied"));
      setTimeout(() => setCopied(false), 2_000);
    }, () => announce(t("notCopied")));
  return (
    <Button variant="default" size="compact-sm" onClick={copy} aria-label={copied ? undefined : label}>
      {copied ? t("copied") : t("copy")}
    </Button>
  );
}

export function Command({ text, label }: { text: string; label: string }) {
  return (
    <div className="command">
      <code tabIndex={0}>{text}</code>
      <Copy text={text} label={label} />
    </div>
  );
}
