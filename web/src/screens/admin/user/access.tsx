import { Checkbox } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { Remove } from "../../../components/system/remove";
import { keys } from "../../../query/keys";
import { useSession } from "../../../session/session";
import { RoleOf } from "../../members/role";
import { platformRoles } from "../users";

type Props = { user: Schemas["UserDetail"] };

const patch = ({ id, version }: Schemas["UserDetail"], body: Schemas["UserPatch"], key: string) =>
  unwrap(api.PATCH("/api/v1/admin/users/{user_id}", { params: { path: { user_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } }, body }));

// Access changes the user in the version on the screen. Administrators do not take their own rights away by a slip.
export function Access({ user }: Props) {
  const t = useTranslations("users");
  const { me, may } = useSession();
  return (
    <section className="panel stack">
      <h2>{t("access")}</h2>
      {user.id === me.user?.id ? (
        <p>{t("you")}</p>
      ) : (
        <>
          {user.role_from === "platform" && (
            <div className="row">
              <RoleOf member={{ ...user, user_id: user.id }} roles={platformRoles} run={(role, key) => patch(user, { role }, key)} invalidates={[keys.users]} />
            </div>
          )}
          <div className="row">
            <Switch user={user} />
            <Relink user={user} />
            {may("deleteUser") && <Delete user={user} />}
          </div>
        </>
      )}
    </section>
  );
}

function Switch({ user }: Props) {
  const t = useTranslations("users");
  const { email, name, disabled } = user;
  return (
    <Remove
      key={String(disabled)}
      action={disabled ? t("enable") : t("disable")}
      name={email}
      text={disabled ? t("enableText", { name }) : t("disableText", { name })}
      done={disabled ? t("isEnabled", { name }) : t("isDisabled", { name })}
      typed={!disabled}
      run={(key) => patch(user, { disabled: !disabled }, key)}
      invalidates={[keys.users, keys.allSessions]}
    />
  );
}

function Relink({ user }: Props) {
  const t = useTranslations("users");
  const [same, setSame] = useState(false);
  const { email, name } = user;
  return (
    <>
      <Remove
        key={String(same)}
        action={t("relink")}
        name={email}
        text={t("relinkText", { name })}
        done={t("isRelinked", { name })}
        run={(key) => patch(user, same ? { relink: true, same_owner: true } : { relink: true }, key)}
        invalidates={[keys.users, keys.allSessions]}
      />
      <Checkbox label={t("sameOwner")} checked={same} onChange={(event) => setSame(event.currentTarget.checked)} />
    </>
  );
}

function Delete({ user: { id, email, name, version } }: Props) {
  const t = useTranslations("users");
  const navigate = useNavigate();
  return (
    <Remove
      action={t("delete")}
      name={email}
      text={t("deleteText", { name })}
      done={t("isDeleted", { name })}
      run={(key) => unwrap(api.DELETE("/api/v1/admin/users/{user_id}", { params: { path: { user_id: id }, header: { "If-Match": `"${version}"`, "X-Idempotency-Key": key } } }))}
      invalidates={[keys.userLists]}
      rereads={[keys.users]}
      after={() => void navigate({ to: "/admin/users" })}
    />
  );
}
