import { Button, Checkbox } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type DragEvent, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { Failure } from "../../components/system/failure";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { below } from "./paths";
import { upload } from "./send";

type Transfer = { path: string; file: File; sent: number; error?: unknown; finished?: true };

// Upload sends files one after the other. Those that fail stay in the list with their error, and can be sent again.
export function Upload({ project, path }: { project: string; path: string }) {
  const t = useTranslations("files");
  const client = useQueryClient();
  const user = useSession().me.user?.id ?? "";
  const input = useRef<HTMLInputElement>(null);
  const [replace, setReplace] = useState(false);
  const [transfers, setTransfers] = useState<Transfer[]>([]);
  const running = transfers.some(({ error, finished }) => error === undefined && finished === undefined);

  const change = (of: string, part: Partial<Transfer>) => setTransfers((all) => all.map((each) => (each.path === of ? { ...each, ...part } : each)));
  const start = async (files: File[]) => {
    if (running || files.length === 0) return;
    setTransfers(files.map((file) => ({ path: pathOf(path, file), file, sent: 0 })));
    for (const file of files) await send(pathOf(path, file), file);
  };
  const send = async (to: string, file: File) => {
    try {
      await upload({ user, project, path: to, file, replace, progress: (sent) => change(to, { sent }) });
      change(to, { sent: file.size, finished: true });
    } catch (error) {
      change(to, { error });
    }
    void client.invalidateQueries({ queryKey: keys.files });
  };
  const again = ({ path: to, file }: Transfer) => {
    if (running) return;
    change(to, { error: undefined, sent: 0 });
    void send(to, file);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    void start([...event.dataTransfer.files]);
  };
  return (
    <section className="stack" onDragOver={(event) => event.preventDefault()} onDrop={drop}>
      <h2>{t("upload")}</h2>
      <p>{t("uploadNote")}</p>
      <input ref={input} type="file" multiple hidden aria-label={t("choose")} onChange={(event) => void start([...(event.currentTarget.files ?? [])])} />
      <Checkbox label={t("replace")} checked={replace} disabled={running} onChange={(event) => setReplace(event.currentTarget.checked)} />
      <Button variant="default" loading={running} onClick={() => input.current?.click()}>
        {t("choose")}
      </Button>
      <ul aria-label={t("transfers")}>
        {transfers.map((transfer) => (
          <li key={transfer.path}>
            <Progress transfer={transfer} again={() => again(transfer)} />
          </li>
        ))}
      </ul>
    </section>
  );
}

// pathOf has the folders of a file in a chosen folder.
const pathOf = (folder: string, file: File) => below(folder, file.webkitRelativePath === "" || file.webkitRelativePath === undefined ? file.name : file.webkitRelativePath);

function Progress({ transfer: { path, file, sent, error, finished }, again }: { transfer: Transfer; again: () => void }) {
  const t = useTranslations("files");
  const { bytes } = useFormat();
  if (error !== undefined) {
    return (
      <>
        {path}
        <Failure error={error} retry={again} />
      </>
    );
  }
  return finished ? t("uploaded", { path, size: bytes(file.size) }) : t("sending", { path, sent: bytes(sent), size: bytes(file.size) });
}
