import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { Failure } from "../../components/system/failure";
import { Remove } from "../../components/system/remove";
import { Secret } from "../../components/system/secret";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

type Props = { project: string; object: Schemas["StorageObject"] };

const invalidates = [keys.files];

// Actions are the buttons of a file or folder.
export function Actions({ project, object, mayChange }: Props & { mayChange: boolean }) {
  return (
    <div className="row">
      <Download project={project} object={object} />
      {object.type === "file" && <Share project={project} object={object} />}
      {mayChange && <Rename project={project} object={object} />}
      {mayChange && <Delete project={project} object={object} />}
    </div>
  );
}

const useSigned = (project: string, path: string) =>
  useAction((_: null, key) => unwrap(api.POST("/api/v1/storage/sign", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key } }, body: { path } })), []);

// Download opens a signed URL, which is an attachment: a link would send no header, and so no project.
function Download({ project, object: { path, name } }: Props) {
  const t = useTranslations("files");
  const action = useSigned(project, path);
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} aria-label={t("downloadOf", { name })} onClick={() => action.start(null, ({ url }) => location.assign(url))}>
        {t("download")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

// Share shows a URL for a person without an account.
function Share({ project, object: { path, name } }: Props) {
  const t = useTranslations("files");
  const [url, setUrl] = useState("");
  const action = useSigned(project, path);
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} aria-label={t("shareOf", { name })} onClick={() => action.start(null, (signed) => setUrl(signed.url))}>
        {t("share")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
      {url !== "" && <Secret name={name} value={url} close={() => setUrl("")} />}
    </>
  );
}

function Rename({ project, object: { path, name, etag } }: Props) {
  const t = useTranslations("files");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const [to, setTo] = useState(path);
  const action = useAction(
    (body: Schemas["StorageRenameRequest"], key) =>
      unwrap(api.POST("/api/v1/storage/rename", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key, "If-Match": etag } }, body })),
    invalidates,
  );
  const close = () => (setOpened(false), action.reset());
  const rename = () => action.start({ from: path, to: to.trim() }, () => (setOpened(false), toast(t("renamed", { name }))));
  return (
    <>
      <Button variant="default" size="compact-sm" aria-label={t("renameOf", { name })} onClick={() => (setTo(path), setOpened(true))}>
        {t("rename")}
      </Button>
      <ConfirmByName
        opened={opened}
        title={t("renameOf", { name })}
        ready={to.trim() !== "" && to.trim() !== path}
        action={t("rename")}
        pending={action.pending}
        error={action.error}
        onConfirm={rename}
        onClose={close}
      >
        <TextInput label={t("newPath")} description={t("newPathNote")} maxLength={1024} autoComplete="off" data-autofocus value={to} onChange={(event) => setTo(event.currentTarget.value)} />
      </ConfirmByName>
    </>
  );
}

function Delete({ project, object: { path, name, type, etag } }: Props) {
  const t = useTranslations("files");
  return (
    <Remove
      action={t("delete")}
      name={name}
      text={type === "folder" ? t("deleteFolderText") : t("deleteText")}
      done={t("deleted", { name })}
      typed={type === "folder"}
      run={(key) =>
        unwrap(
          api.DELETE("/api/v1/storage/delete", {
            params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key, "If-Match": etag }, query: { path, ...(type === "folder" && { recursive: true }) } },
          }),
        )
      }
      invalidates={invalidates}
    />
  );
}
