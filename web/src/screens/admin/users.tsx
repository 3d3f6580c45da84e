import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Filter } from "../../components/system/filter";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { type UserFilter, keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { CreateUser } from "./users/create";

type User = Schemas["User"];

// Roles of the platform. Role objects can declare more, which a filter of the address or a user has as a text.
export const platformRoles = ["user", "operator", "billing_operator", "admin"];

export function Users() {
  const t = useTranslations("users");
  const { may } = useSession();
  const { columns: _, ...filter } = useSearch({ from: "/admin/users" });
  const [columns, controls] = useListControls("users", useUserColumns());
  const navigate = useNavigate({ from: "/admin/users" });
  const set = (change: UserFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm
        fields={[
          { name: "q", label: t("q"), most: 100 },
          { name: "tenant", label: t("tenantId"), most: 36 },
        ]}
        filter={filter}
        set={set}
      >
        <Filter label={t("role")} any={t("anyRole")} values={platformRoles} value={filter.role ?? ""} change={(role) => set({ role })} />
      </FilterForm>
      {controls}
      <UserTable filter={filter} columns={columns} />
      {may("createUser") && <CreateUser />}
      <Command text="gpuaas admin users" label={t("command")} />
    </div>
  );
}

// useUserColumns are the columns of a list of users.
export function useUserColumns(): Column<User>[] {
  const t = useTranslations("users");
  return useMemo(
    () => [
      { id: "email", header: t("email"), cell: ({ id, email }) => <Link to="/admin/users/$id" params={{ id }}>{email}</Link> },
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "role", header: t("role"), cell: ({ role }) => role },
      { id: "tenant", header: t("tenant"), cell: ({ tenant }) => (tenant === undefined ? t("noTenant") : t("tenantText", { name: tenant.name, role: tenant.role })) },
      { id: "state", header: t("state"), cell: ({ disabled }) => (disabled ? t("disabled") : t("enabled")) },
      { id: "signedIn", header: t("signedIn"), cell: ({ signed_in_at: at }) => (at === undefined ? t("never") : <Time at={at} />) },
    ],
    [t],
  );
}

// UserTable is the list of users with filters, of which the screen of a tenant has its own.
export function UserTable({ filter, columns }: { filter: UserFilter; columns: Column<User>[] }) {
  const t = useTranslations("users");
  return (
    <CursorTable
      label={t("title")}
      queryKey={keys.userList(filter)}
      load={(cursor) => unwrap(api.GET("/api/v1/admin/users", { params: { query: { ...filter, cursor, limit: 100 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      empty={<Empty text={t("none")} />}
    />
  );
}
