import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, createContext, useCallback, useContext, useEffect, useRef, useState } from "react";
import { type Schemas, api, unwrap } from "../api/client";
import { ApiError } from "../api/error";
import { selectProject, selectedProject } from "../api/project";
import { Failure } from "../components/system/failure";
import { Loading } from "../components/system/states";
import { keys, stale } from "../query/keys";
import { type Action, mayDo } from "./may";
import { goToSignIn } from "./signin";

type Session = {
  me: Schemas["Me"];
  projects: Schemas["Project"][];
  project: string;
  setProject: (id: string) => void;
  may: (action: Action) => boolean;
  // projectsWith are the selected projects in which the user may do something.
  projectsWith: (action: Action) => Schemas["Project"][];
};

const Context = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(Context);
  if (session === undefined) throw new Error("outside of SessionGate");
  return session;
}

const isUnauthenticated = (error: unknown) => error instanceof ApiError && error.status === 401;

// SessionGate shows the screens to a user. Without a session it goes to the sign-in, which comes back to this address. A
// session that ends later leaves the screen with its forms, and offers the sign-in.
export function SessionGate({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [project, setProject] = useState(selectedProject());
  const me = useQuery({ queryKey: keys.me, queryFn: () => unwrap(api.GET("/api/v1/users/me")), staleTime: stale.catalogue });
  const projects = useQuery({
    queryKey: keys.projects,
    queryFn: () => unwrap(api.GET("/api/v1/projects", { params: { query: { limit: 200 } } })),
    staleTime: stale.catalogue,
    enabled: me.data?.tenant !== undefined,
  });
  const select = useCallback(
    (id: string) => {
      selectProject(id);
      setProject(id);
      void client.invalidateQueries();
    },
    [client],
  );
  // Another user has signed in, in another tab. This tab has the data and the forms of the user before.
  const user = me.data?.user?.id;
  const first = useRef(user);
  first.current ??= user;
  const isAnother = user !== first.current;
  useEffect(() => {
    if (isAnother) location.reload();
  }, [isAnother]);
  // A stored project can have been deleted, or belong to another user.
  const isForgotten = project !== "" && (me.data === undefined ? me.error !== null && !isUnauthenticated(me.error) : projects.data?.items.every(({ id }) => id !== project) === true);
  useEffect(() => {
    if (isForgotten) select("");
  }, [isForgotten, select]);
  if (isAnother) return <Loading />;
  if (me.data === undefined) {
    if (isUnauthenticated(me.error)) return <ToSignIn />;
    return me.error === null || isForgotten ? <Loading /> : <Failure error={me.error} retry={() => void me.refetch()} />;
  }
  if (me.data.tenant !== undefined && projects.data === undefined && projects.error === null) return <Loading />;
  const items = projects.data?.items ?? [];
  const tenant = me.data.tenant?.role ?? "";
  const selected = items.filter(({ id }) => project === "" || id === project);
  const platform = me.data.user?.role;
  const may = (action: Action) => mayDo(action, { tenant, projects: selected.map(({ role }) => role), platform });
  const projectsWith = (action: Action) => selected.filter(({ role }) => mayDo(action, { tenant, projects: [role] }));
  return (
    <Context value={{ me: me.data, projects: items, project, setProject: select, may, projectsWith }}>
      {me.error !== null && <Failure error={me.error} />}
      {children}
    </Context>
  );
}

function ToSignIn() {
  useEffect(goToSignIn, []);
  return <Loading />;
}
