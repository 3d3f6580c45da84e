import { Button, NativeSelect, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { ConfirmByName } from "../../components/system/confirm";
import { useToast } from "../../components/system/toasts";
import { useAction } from "../../query/action";
import { keys } from "../../query/keys";

type Props = { allocation: Schemas["Allocation"]; gpus: string[] };

const longest = 512;

// ReportFault reports a fault that the platform has not observed. Operators decide about it.
export function ReportFault({ allocation: { id, name }, gpus }: Props) {
  const t = useTranslations("allocation");
  const toast = useToast();
  const [opened, setOpened] = useState(false);
  const [message, setMessage] = useState("");
  const [gpu, setGpu] = useState("");
  const action = useAction(
    (body: Schemas["FaultRequest"], key) => unwrap(api.POST("/api/v1/allocations/{id}/report-fault", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body })),
    [keys.allocation(id)],
  );
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
