import { Button, NativeSelect, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";
import { useKeepWhile, useReturn } from "../../session/draft";
import { needsSignIn } from "../../session/signin";

type Props = { allocation: Schemas["Allocation"]; gpus: string[] };

const longest = 512;

// ReportFault reports a fault that the platform has not observed. Operators decide about it. The dialog opens again with its
// input after a sign-in that the report needed.
export function ReportFault({ allocation: { id, name }, gpus }: Props) {
  const t = useTranslations("allocation");
  const toast = useToast();
  const [before, keep] = useReturn<{ message?: string; gpu?: string }>(`fault.${id}`);
  const [opened, setOpened] = useState(before !== undefined);
  const [message, setMessage] = useState(before?.message ?? "");
  const [gpu, setGpu] = useState(before?.gpu ?? "");
  const action = useAction(
    (body: Schemas["FaultRequest"], key) => unwrap(api.POST("/api/v1/allocations/{id}/report-fault", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.allocation(id)],
  );
  useKeepWhile(needsSignIn(action.error), { message, gpu }, keep);
  const close = () => {
    setOpened(false);
    action.reset();
  };
  const report = () =>
    action.start({ message: message.trim(), ...(gpu !== "" && { gpu }) }, () => {
      setOpened(false);
      setMessage("");
      toast(t("faultReported"));
    });
  return (
    <section className="panel stack">
      <h2>{t("fault")}</h2>
      <p>{t("faultText")}</p>
      <Button variant="default" onClick={() => setOpened(true)}>
        {t("faultOpen")}
      </Button>
      <ConfirmByName opened={opened} title={t("faultTitle", { name })} ready={message.trim() !== ""} action={t("faultAction")} pending={action.pending} error={action.error} onConfirm={report} onClose={close}>
        <Textarea label={t("faultMessage")} description={t("faultNote")} maxLength={longest} required rows={3} value={message} onChange={(event) => setMessage(event.currentTarget.value)} data-autofocus />
        <NativeSelect
          label={t("faultOf")}
          value={gpu}
          onChange={(event) => setGpu(event.currentTarget.value)}
          data={[{ value: "", label: t("faultNode") }, ...gpus.map((uuid, number) => ({ value: uuid, label: t("faultGpu", { number, uuid }) }))]}
        />
      </ConfirmByName>
    </section>
  );
}
