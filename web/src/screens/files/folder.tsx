import { Button, TextInput } from "@mantine/core";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { below } from "./paths";

export function CreateFolder({ project, path }: { project: string; path: string }) {
  const t = useTranslations("files");
  const toast = useToast();
  const [draft, change, done] = useDraft("folder", { name: "" });
  const action = useAction(
    (body: { path: string }, key) => unwrap(api.POST("/api/v1/storage/mkdir", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key } }, body })),
    [keys.files],
  );
  const name = draft.name.trim();
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (name !== "") action.start({ path: below(path, name) }, () => (done(), toast(t("folderCreated", { name }))));
      }}
    >
      <h2>{t("createFolder")}</h2>
      <TextInput label={t("folderName")} maxLength={255} autoComplete="off" value={draft.name} onChange={(event) => change({ name: event.currentTarget.value })} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={name === ""} loading={action.pending}>
        {t("createFolderAction")}
      </Button>
    </form>
  );
}
