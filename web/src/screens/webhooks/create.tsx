import { Button, NativeSelect } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { Secret } from "../../components/system/secret";
import { useToast } from "../../components/system/toasts";
import { useWords } from "../../components/system/words";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useDraft } from "../../session/draft";
import { Fields, eventsOf, isComplete } from "./form";

type Format = Schemas["WebhookFormat"];
type Signature = Schemas["WebhookSignature"];

const formats: Format[] = ["standard", "slack"];
const signatures: Signature[] = ["v1", "v1a"];

// Create creates a webhook for the selected project, or for the tenant, and shows its secret once.
export function Create() {
  const t = useTranslations("webhooks");
  const word = useWords();
  const toast = useToast();
  const [draft, change, done] = useDraft("webhook", { name: "", url: "", events: "provisioning.*", format: "standard" as Format, signature: "v1" as Signature });
  const [secret, setSecret] = useState({ name: "", value: "" });
  const action = useAction(
    (body: Schemas["WebhookRequest"], key) => unwrap(api.POST("/api/v1/webhooks", { params: { header: { "X-Idempotency-Key": key } }, body })),
    [keys.webhooks],
  );
  const { name, url, format, signature } = draft;
  const create = () =>
    action.start({ name, url, events: eventsOf(draft.events), format, signature }, (made, shown) => {
      done();
      setSecret({ name: made.name, value: made.secret ?? "" });
      toast(t(shown || made.secret === undefined ? "created" : "unseen", { name: made.name }));
    });
  if (secret.value !== "") return <Secret name={secret.name} value={secret.value} close={() => setSecret({ name: "", value: "" })} />;
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isComplete(draft)) create();
      }}
    >
      <h2>{t("create")}</h2>
      <Fields draft={draft} change={change} />
      <NativeSelect label={t("format")} description={t("formatNote")} value={format} onChange={(event) => change({ format: event.currentTarget.value as Format })} data={formats.map((value) => ({ value, label: word(value) }))} />
      <NativeSelect label={t("signature")} value={signature} onChange={(event) => change({ signature: event.currentTarget.value as Signature })} data={signatures.map((value) => ({ value, label: t(value) }))} />
      {action.error !== null && <Failure error={action.error} />}
      <Button type="submit" disabled={!isComplete(draft)} loading={action.pending}>
        {t("createAction")}
      </Button>
    </form>
  );
}
