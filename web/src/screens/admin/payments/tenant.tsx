import { Link } from "@tanstack/react-router";

// TenantLink is the tenant of a row of money.
export function TenantLink({ id }: { id: string }) {
  return (
    <Link to="/admin/tenants/$id" params={{ id }}>
      {id}
    </Link>
  );
}
