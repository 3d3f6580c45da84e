import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import type { Column } from "../../../components/system/cursor-table";
import { Remove } from "../../../components/system/remove";
import { keys } from "../../../query/keys";
import { useSession } from "../../../session/session";
import { List } from "../../node/list";
import { Origin } from "./origin";
import { type Key, useValue } from "./value";

type Setting = Schemas["PolicySetting"];

// Settings are the values of a key with their scopes. Only a value of the API is removed here.
export function Settings({ policy }: { policy: Key }) {
  const t = useTranslations("policies");
  const { may } = useSession();
  const removes = may("deleteDesired");
  const columns = useMemo(
    (): Column<Setting>[] => [
      { id: "scope", header: t("scope"), cell: ({ scope }) => scope },
      { id: "value", header: t("value"), cell: (setting) => <Text policy={policy} setting={setting} /> },
      { id: "source", header: t("source"), cell: ({ source }) => <Origin source={source} /> },
      { id: "object", header: t("object"), cell: ({ object }) => object },
      ...(removes ? [{ id: "remove", header: t("change"), cell: (setting: Setting) => setting.source.owner === "api" && <Unset policy={policy} setting={setting} /> }] : []),
    ],
    [t, policy, removes],
  );
  return <List title={t("settings")} empty={t("noSettings")} columns={columns} rows={policy.set} rowKey={({ object }) => object} />;
}

type Props = { policy: Key; setting: Setting };

function Text({ policy, setting: { value } }: Props) {
  const text = useValue();
  return <>{text(policy, value)}</>;
}

function Unset({ policy: { key }, setting: { scope, object: name, version } }: Props) {
  const t = useTranslations("policies");
  return (
    <Remove
      action={t("remove")}
      name={scope}
      text={t("removeText", { key, scope })}
      done={t("isRemoved", { scope })}
      typed={false}
      run={(id) => unwrap(api.DELETE("/api/v1/admin/desired/{kind}/{name}", { params: { path: { kind: "Policy", name }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": id } } }))}
      invalidates={[keys.policies]}
    />
  );
}
