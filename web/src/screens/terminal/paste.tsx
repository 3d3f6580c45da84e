import { Button, Modal } from "@mantine/core";
import { useTranslations } from "use-intl";
import { linesOf } from "../../terminal/lines";

// Paste asks before several lines are pasted, because a shell runs each of them at once.
export function Paste({ text, settle }: { text: string | undefined; settle: (paste: boolean) => void }) {
  const t = useTranslations("terminal");
  return (
    <Modal opened={text !== undefined} onClose={() => settle(false)} title={t("paste", { lines: linesOf(text ?? "") })} closeButtonProps={{ "aria-label": t("pasteCancel") }}>
      <div className="stack">
        <p>{t("pasteWhy")}</p>
        <pre className="pasted" tabIndex={0}>{text}</pre>
        <div className="row">
          <Button onClick={() => settle(true)}>{t("pasteAction")}</Button>
          <Button variant="default" onClick={() => settle(false)}>
            {t("pasteCancel")}
          </Button>
        </div>
      </div>
    </Modal>
  );
}
