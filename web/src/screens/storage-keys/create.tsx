import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { secondsOf } from "../keys/check";

const empty = { name: "", folder: "", scope: "read", days: "90" };

// requestOf is the request of a draft. A folder is entered with or without slashes at its ends.
export function requestOf({ name, folder, scope, days }: typeof empty): Schemas["StorageKeyRequest"] {
  const prefix = folder.trim().replace(/^\/+|\/+$/g, "");
  const seconds = secondsOf(days);
  return { name: name.trim(), read_only: scope !== "write", ...(prefix !== "" && { prefix }), ...(seconds !== undefined && { ttl_seconds: seconds }) };
}

type Props = { project: string; show: (key: Schemas["CreatedStorageKey"]) => void };

// CreateKey creates an access key. The draft stays over the sign-in that the API asks for.
export function CreateKey({ project, show }: Props) {
  const t = useTranslations("storageKeys");
  const common = useTranslations("keys");
  const toast = useToast();
  const [draft, change, done] = useDraft(`storage-key.${project}`, empty);
  const action = useAction(
    (body: Schemas["StorageKeyRequest"], key) => unwrap(api.POST("/api/v1/storage/keys", { params: { header: { "X-Project-ID": project, "X-Idempotency-Key": key } }, body })),
    [keys.storageKeys(project)],
  );
  const wrongDays = Number.isNaN(secondsOf(draft.days));
  const complete = draft.name.trim() !== "" && !wrongDays;
  const create = () =>
    action.start(requestOf(draft), (key, shown) => {
      done();
      show(key);
      toast(shown ? t("created", { name: key.name }) : t("unseen", { name: key.name }));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) create();
      }}
    >
      <h2>{t("add")}</h2>
      <TextInput label={t("keyName")} maxLength={64} required autoComplete="off" value={draft.name} onChange={(event) => change({ name: event.currentTarget.value })} />
      <NativeSelect
        label={t("keyScope")}
        value={draft.scope}
        onChange={(event) => change({ scope: event.currentTarget.value })}
        data={[
          { value: "read", label: t("readOnly") },
          { value: "write", label: t("readWrite") },
        ]}
      />
      <TextInput label={t("keyFolder")} description={t("folderNote")} maxLength={4096} autoComplete="off" value={draft.folder} onChange={(event) => change({ folder: event.currentTarget.value })} />
      <TextInput
        label={common("days")}
        description={common("daysNote")}
        inputMode="numeric"
        value={draft.days}
        error={wrongDays ? common("daysWrong") : undefined}
        onChange={(event) => change({ days: event.currentTarget.value })}
      />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!complete} loading={action.pending}>
        {t("addAction")}
      </Button>
    </form>
  );
}
