import { Button, NativeSelect } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { Failure } from "../../components/system/failure";
import { Secret } from "../../components/system/secret";
import { useToast } from "../../components/system/toasts";
import { When, isoOf } from "../../components/system/when";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

type Props = { webhook: Schemas["Webhook"] };

// Test sends a test message, and shows what the receiver responded.
export function Test({ webhook: { id } }: Props) {
  const t = useTranslations("webhooks");
  const [result, setResult] = useState("");
  const action = useAction((_: null, key) => unwrap(api.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id }, header: { "X-Idempotency-Key": key } } })), []);
  const run = () =>
    action.start(null, ({ result, status_code: status, latency_ms: milliseconds, error = "" }) =>
      setResult(result === "delivered" ? t("tested", { status: String(status ?? ""), milliseconds: String(milliseconds) }) : t("testFailed", { error })),
    );
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} onClick={run}>
        {t("test")}
      </Button>
      <span role="status">{result}</span>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

// Toggle disables the webhook, or enables one that a user or the platform has disabled.
export function Toggle({ webhook: { id, name, version, status } }: Props) {
  const t = useTranslations("webhooks");
  const toast = useToast();
  const disabled = status !== "disabled";
  const action = useAction(
    (body: Schemas["WebhookPatch"], key) => unwrap(api.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body })),
    [keys.webhooks],
  );
  return (
    <>
      <Button variant="default" size="compact-sm" loading={action.pending} onClick={() => action.start({ disabled }, () => toast(t(disabled ? "disabled" : "enabled", { name })))}>
        {t(disabled ? "disable" : "enable")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

// Replay sends deliveries again: the missed ones, or all since a time.
export function Replay({ webhook: { id, name } }: Props) {
  const t = useTranslations("webhooks");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const [mode, setMode] = useState<Schemas["WebhookReplay"]["mode"]>("missed");
  const [from, setFrom] = useState("");
  const action = useAction(
    (body: Schemas["WebhookReplay"], key) => unwrap(api.POST("/api/v1/webhooks/{webhook_id}/replay", { params: { path: { webhook_id: id }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.webhookDeliveries(id)],
  );
  const since = isoOf(from);
  const close = () => {
    setOpened(false);
    action.reset();
  };
  const replay = () =>
    action.start({ mode, ...(mode === "all" && { from_at: since }) }, ({ deliveries: count }) => {
      setOpened(false);
      toast(t("replayed", { count }));
    });
  return (
    <>
      <Button variant="default" size="compact-sm" onClick={() => setOpened(true)}>
        {t("replay")}
      </Button>
      <ConfirmByName opened={opened} title={t("replay")} ready={mode === "missed" || since !== undefined} action={t("replay")} pending={action.pending} error={action.error} onConfirm={replay} onClose={close}>
        <p>{t("replayText", { name })}</p>
        <NativeSelect
          label={t("replayMode")}
          value={mode}
          onChange={(event) => setMode(event.currentTarget.value as typeof mode)}
          data={[
            { value: "missed", label: t("missed") },
            { value: "all", label: t("all") },
          ]}
        />
        {mode === "all" && <When label={t("from")} note={t("fromNote")} value={from} change={setFrom} />}
      </ConfirmByName>
    </>
  );
}

// Rotate creates a new secret, and shows it once.
export function Rotate({ webhook: { id, name } }: Props) {
  const t = useTranslations("webhooks");
  const toast = useToast();
  const [secret, setSecret] = useState("");
  const action = useAction(
    (_: null, key) => unwrap(api.POST("/api/v1/webhooks/{webhook_id}/rotate-secret", { params: { path: { webhook_id: id }, header: { "X-Idempotency-Key": key } }, body: {} })),
    [keys.webhooks],
  );
  if (secret !== "") return <Secret name={name} value={secret} close={() => setSecret("")} />;
  const rotate = () =>
    action.start(null, ({ secret }, shown) => {
      setSecret(secret ?? "");
      toast(t(shown || secret === undefined ? "rotated" : "unseen", { name }));
    });
  return (
    <section className="panel stack">
      <h2>{t("rotate")}</h2>
      <p>{t("rotateText", { name })}</p>
      <Button variant="default" loading={action.pending} onClick={rotate}>
        {t("rotate")}
      </Button>
      {action.error !== null && <Failure error={action.error} />}
    </section>
  );
}
