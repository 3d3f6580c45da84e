import { Button } from "@mantine/core";
import { useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Failure } from "../../components/system/failure";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { type Draft, Fields, eventsOf, isComplete } from "../webhooks/form";

type Webhook = Schemas["Webhook"];
type Base = { version: number; draft: Draft };

const baseOf = ({ version, name, url, events }: Webhook): Base => ({ version, draft: { name, url, events: events.join("\n") } });

// changeOf is what differs from the version with which the form was opened.
function changeOf({ draft: former }: Base, draft: Draft): Schemas["WebhookPatch"] {
  const events = eventsOf(draft.events);
  return {
    ...(draft.name !== former.name && { name: draft.name }),
    ...(draft.url !== former.url && { url: draft.url }),
    ...(events.join(" ") !== eventsOf(former.events).join(" ") && { events }),
  };
}

// Edit changes name, address and events, in the version with which the form was opened.
export function Edit({ webhook }: { webhook: Webhook }) {
  const t = useTranslations("webhooks");
  const toast = useToast();
  const toggle = useRef<HTMLButtonElement>(null);
  const [base, setBase] = useState<Base>();
  const action = useAction(
    ({ version, body }: { version: number; body: Schemas["WebhookPatch"] }, key) =>
      unwrap(api.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: webhook.id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body })),
    [keys.webhooks],
  );
  const close = () => {
    setBase(undefined);
    action.reset();
    toggle.current?.focus();
  };
  const save = (version: number, body: Schemas["WebhookPatch"]) =>
    action.start({ version, body }, ({ name }) => {
      toast(t("edited", { name }));
      close();
    });
  return (
    <section className="panel stack">
      <h2>{t("edit")}</h2>
      <Button ref={toggle} variant="default" aria-expanded={base !== undefined} onClick={() => (base === undefined ? setBase(baseOf(webhook)) : close())}>
        {t("editOpen")}
      </Button>
      {base !== undefined && <Form base={base} pending={action.pending} save={(body) => save(base.version, body)} />}
      {action.error !== null && <Failure error={action.error} />}
    </section>
  );
}

function Form({ base, pending, save }: { base: Base; pending: boolean; save: (body: Schemas["WebhookPatch"]) => void }) {
  const t = useTranslations("webhooks");
  const [draft, setDraft] = useState(base.draft);
  const body = changeOf(base, draft);
  const complete = isComplete(draft) && Object.keys(body).length > 0;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) save(body);
      }}
    >
      <Fields draft={draft} change={(part) => setDraft((old) => ({ ...old, ...part }))} />
      <Button type="submit" disabled={!complete} loading={pending}>
        {t("editAction")}
      </Button>
    </form>
  );
}
