package arch

import (
	"slices"
	"strings"
)

// anything is what the folders at the top may import.
const anything = "*"

// rooms says which packages of ours a folder may import beside internal and
// itself. The longest matching folder rules; a package without one has no room.
// No arrow runs upwards: cmd, api, jobs, {product, reconciler}, {platform,
// desired, observed}, {policies, cue, agent/wire}.
var rooms = map[string][]string{
	"internal":        {},
	"internal/pgtest": {"migrations"}, // the template that tests clone

	"cue":          {},
	"deploy":       {},
	"docs":         {},
	"environments": {},
	"migrations":   {},
	"policies":     {},
	"policies/gen": {"policies"},
	// A leaf that nodes link as well: what they hand out is judged by the table that
	// the control plane sells by.
	"policies/fault":     {"agent/wire"},
	"policies/fault/gen": {},
	"web":                {},

	"agent":      {"agent", "policies/fault"},
	"agent/wire": {},

	"desired":          {},
	"desired/validate": {"cue", "desired", "policies"}, // a Policy's values have the types of its keys
	"desired/git":      {"desired", "desired/validate"},
	"observed":         {"agent/wire"},

	// platform/event: a drift is a fact.
	"reconciler": {"desired", "observed", "reconciler/plan", "reconciler/check", "platform/event"},
	// agent/wire: slots and fences have one vocabulary, and it is a leaf.
	"reconciler/plan": {"desired", "observed", "agent/wire"},
	// What a change would do: pure, as the plan is.
	"reconciler/preview": {"desired", "policies"},
	// What people do to declarations is audited, repeatable, and told as a fact; so is
	// what a commit does. reconciler: they live with drift, too.
	"reconciler/change": {"desired", "desired/git", "desired/validate", "reconciler", "reconciler/preview", "platform/audit", "platform/event", "platform/identity", "policies"},
	"reconciler/follow": {"desired", "desired/git", "desired/validate", "reconciler/preview", "reconciler/change", "reconciler/forge", "platform/audit", "platform/event", "policies"},
	"reconciler/forge":  {},
	"reconciler/check":  {"desired", "observed", "reconciler/plan", "agent/wire"},

	"platform": {"policies"},                                                        // and lower floors
	"product":  {"platform", "policies", "policies/fault", "desired", "agent/wire"}, // and lower floors; policies/fault: what a fault leads to

	// migrations: the name of the schema that River's tables are in.
	"jobs":          {"jobs/nodetask", "reconciler", "platform", "product", "policies", "desired", "observed", "agent/wire", "migrations"},
	"jobs/nodetask": {"agent/wire"},

	"api/openapi":  {},
	"api/asyncapi": {},
	"api/oapi":     {},
	// reconciler: the plan history, with its reasons, is read from its store.
	"api/rest":   {"api/oapi", "api/openapi", "api/asyncapi", "platform", "product", "policies", "desired", "observed", "reconciler", "web", "docs"},
	"api/stream": {"api/oapi", "platform", "product", "policies", "desired", "observed"},
	// desired: the word that wakes the loop. platform/secret: whether a node's
	// certificate is in force, asked at every call.
	"api/nodeapi": {"agent/wire", "jobs/nodetask", "observed", "product/inventory", "desired", "platform/secret"},

	"cmd":     {anything},
	"e2e":     {anything},
	"scripts": {},
	// Holds the contract against the released one.
	"scripts/contractdiff": {"api/openapi"},
}

// roofs are imported by nobody.
var roofs = []string{"cmd", "e2e", "scripts"}

// floors, lowest first. A total order on purpose: two rooms that want each
// other mean that one of them should enqueue.
var floors = map[string][]string{
	"platform": {"audit", "event", "identity", "secret", "catalog", "ledger", "payment", "metering", "billing", "notification", "evidence"},
	"product":  {"inventory", "storage", "allocation", "app", "terminal"},
}

// fences keep libraries to the folders that may know them. They hold for test
// files as well.
var fences = []struct {
	library []string
	only    []string // the only folders that may import it
	never   []string // or the folders that may not
}{
	{library: []string{"github.com/gin-gonic/gin", "go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic"}, only: []string{"api"}},
	// Handlers without a door before them are for measuring the door.
	{library: []string{module + "/api/rest/bare"}, only: []string{"e2e/bench"}},
	{library: []string{module + "/desired/validate/bare"}, only: []string{"e2e/bench"}},
	// internal/checkout plays Stripe, and both it and who runs it are tested by Stripe's own client.
	{library: []string{"github.com/stripe/stripe-go"}, only: []string{"platform/payment/stripe", "internal/checkout", "cmd/gpuaas/up"}},
	// Vault is one driver of a port; nobody else speaks to it.
	{library: []string{"github.com/hashicorp/vault"}, only: []string{"platform/secret/vault"}},
	// The gens turn definitions and keys into Go when make runs them; nothing links them.
	{library: []string{"cuelang.org/go"}, only: []string{"desired/validate", "policies/gen", "policies/fault/gen"}},
	{
		library: []string{"github.com/jackc/pgx", "github.com/riverqueue", "riverqueue.com", "database/sql"},
		never:   []string{"agent", "reconciler/plan", "reconciler/check", "reconciler/preview", "product/inventory/place", "product/inventory/rollout"},
	},
}

// unlinked must not be in the node binary, however far down: it runs as root
// on every machine, and each of these is a parser or a listener more.
var unlinked = []string{
	"github.com/jackc/pgx", "github.com/riverqueue", "riverqueue.com", "github.com/pressly/goose",
	"github.com/gin-gonic", "github.com/getkin/kin-openapi", "github.com/oapi-codegen",
	"github.com/nats-io", "cuelang.org/go", "github.com/go-git", "github.com/hashicorp", module + "/migrations",
}

// roomOf returns the folder that rules a package, or "".
func roomOf(pkg string) string {
	best := ""
	for room := range rooms {
		if under(pkg, room) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

// home is the folder whose packages may use each other freely: a room with its
// adapters and its pure parts. In a wing that is the room, not the wing.
func home(pkg string) string {
	if wing, rest, ok := strings.Cut(pkg, "/"); ok && floors[wing] != nil {
		room, _, _ := strings.Cut(rest, "/")
		return wing + "/" + room
	}
	return roomOf(pkg)
}

// verdict says why from may not import to, or "".
func verdict(from, to string) string {
	may := rooms[roomOf(from)]
	switch {
	case roomOf(from) == "" || roomOf(to) == "":
		return "has no room"
	case underAny(to, roofs) && home(from) != home(to):
		return "nobody imports " + to
	case slices.Contains(may, anything), under(to, "internal"), home(from) == home(to):
		return ""
	case sameWing(from, to):
		return floorVerdict(from, to)
	}
	for _, allowed := range may {
		// A room in its own right, such as agent/wire, is not meant by its parent.
		if under(to, allowed) && (roomOf(to) == roomOf(allowed) || allowed == "agent" || allowed == "reconciler") {
			return ""
		}
	}
	return "may import only internal and " + strings.Join(may, ", ")
}

func sameWing(a, b string) bool {
	wing, _, _ := strings.Cut(a, "/")
	return floors[wing] != nil && under(b, wing)
}

func floorVerdict(from, to string) string {
	wing, _, _ := strings.Cut(from, "/")
	order := floors[wing]
	lower := slices.Index(order, strings.TrimPrefix(home(to), wing+"/"))
	upper := slices.Index(order, strings.TrimPrefix(home(from), wing+"/"))
	switch {
	case lower < 0 || upper < 0:
		return "has no floor in " + wing
	case lower >= upper:
		return "is on a lower floor"
	}
	return ""
}
