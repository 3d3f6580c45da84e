import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../../api/client";
import { ConfirmByName } from "../../../components/system/confirm";
import { useToast } from "../../../components/system/toasts";
import { useAction } from "../../../query/action";
import { keys } from "../../../query/keys";
import { useDraft } from "../../../session/draft";
import { Origin } from "./origin";
import { type Key, type Value, textOf, useValue, valueOf } from "./value";

type Draft = { level: string; name: string; entered?: string };
type Change = { scope: string; value: Value; version: number | undefined };

// matching is the precondition of a change: the version on the screen, or that no value exists.
const matching = (version: number | undefined) => (version === undefined ? { "If-None-Match": "*" as const } : { "If-Match": `"${version}"` });

// PolicyForm sets a value at one scope, in the version on the screen. Where Git has the value, the form is its file and line.
export function PolicyForm({ policy }: { policy: Key }) {
  const t = useTranslations("policies");
  const toast = useToast();
  const text = useValue();
  const { key, scopes } = policy;
  const [{ level, name, entered }, enter, done] = useDraft<Draft>(`policy.${key}`, { level: scopes[0] ?? "", name: "" });
  const [confirms, setConfirms] = useState(false);
  const [version, setVersion] = useState<number>();
  const scope = level === "platform" ? level : `${level}:${name.trim()}`;
  const own = policy.set.find((setting) => setting.scope === scope);
  const shown = entered ?? textOf(own?.value ?? policy.default);
  const value = valueOf(policy, shown);
  const action = useAction(
    ({ version, ...body }: Change, id) =>
      unwrap(api.PUT("/api/v1/admin/policies/{key}", { params: { path: { key }, header: { "X-Idempotency-Key": id, ...matching(version) } }, body })),
    [keys.policies],
  );
  const run = () => {
    if (value === undefined) return;
    action.start({ scope, value, version }, () => {
      setConfirms(false);
      done();
      toast(t("isSet", { key }));
    });
  };
  const close = () => {
    setConfirms(false);
    action.reset();
  };
  const complete = value !== undefined && (level === "platform" || name.trim() !== "");
  return (
    <form
      className="panel stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (!complete) return;
        setVersion(own?.version);
        setConfirms(true);
      }}
    >
      <h2>{t("set")}</h2>
      <div className="row">
        <NativeSelect label={t("level")} value={level} onChange={(event) => enter({ level: event.currentTarget.value })} data={scopes} />
        {level !== "platform" && <TextInput label={t("name")} description={t("nameNote")} maxLength={100} value={name} onChange={(event) => enter({ name: event.currentTarget.value })} />}
      </div>
      {own?.source.owner === "git" ? (
        <p>
          {t("inGit")} <Origin source={own.source} />
        </p>
      ) : (
        <div className="row">
          <Field policy={policy} value={shown} wrong={value === undefined} change={(entered) => enter({ entered })} />
          <Button type="submit" variant="default" disabled={!complete}>
            {t("setAction")}
          </Button>
        </div>
      )}
      <ConfirmByName opened={confirms} title={t("setTitle", { key })} action={t("setAction")} pending={action.pending} error={action.error} onConfirm={run} onClose={close}>
        <p>{t("setText", { key, scope, value: value === undefined ? "" : text(policy, value), before: own === undefined ? t("absent") : text(policy, own.value) })}</p>
      </ConfirmByName>
    </form>
  );
}

type FieldProps = { policy: Key; value: string; wrong: boolean; change: (text: string) => void };

function Field({ policy: { type, values = [], unit }, value, wrong, change }: FieldProps) {
  const t = useTranslations("policies");
  if (type === "bool" || type === "enum") {
    const data = type === "bool" ? [{ value: "true", label: t("on") }, { value: "false", label: t("off") }] : values;
    return <NativeSelect label={t("value")} value={value} onChange={(event) => change(event.currentTarget.value)} data={data} />;
  }
  const note = type === "list" ? t("comma") : unit;
  return <TextInput label={t("value")} description={note} value={value} maxLength={1024} error={wrong ? t("wrong") : undefined} onChange={(event) => change(event.currentTarget.value)} />;
}
