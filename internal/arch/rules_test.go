package arch

import (
	"slices"
	"strings"
)

// anything is the rule of folders at the top, which may import every package.
const anything = "*"

// importRules lists the packages of ours that a folder may import in addition to internal and
// itself. The rule of the longest matching folder applies. A package without a rule fails the
// tests. No import points upwards: cmd > cli > dev > server > api > jobs > services > gitops >
// {product, reconciler} > platform > {desired, observed} > {policies, cue, protocol} > internal.
var importRules = map[string][]string{
	"internal":        {},
	"internal/pgtest": {"migrations"}, // pgtest clones the migrated template database

	"cue":          {},
	"deploy":       {},
	"docs":         {},
	"environments": {},
	"migrations":   {},
	"web":          {},
	"policies":     {},
	"policies/gen": {"policies"},

	"protocol": {},
	// The agent and the control plane classify GPU faults by the same table.
	"protocol/fault":     {"protocol"},
	"protocol/fault/gen": {},

	"agent": {"agent", "protocol"},

	"desired":          {},
	"desired/revision": {"desired"},
	"desired/validate": {"cue", "desired", "policies"}, // the values of a Policy have the types of its keys
	"observed":         {"protocol"},

	"reconciler":       {"desired", "observed", "reconciler/plan", "reconciler/check", "policies", "platform/event"}, // a drift is an event
	"reconciler/plan":  {"desired", "observed", "protocol"},
	"reconciler/check": {"desired", "observed", "reconciler/plan", "protocol"},

	"gitops/source":  {"desired", "desired/revision", "desired/validate"},
	"gitops/preview": {"desired", "desired/revision", "policies"},
	"gitops/forge":   {},
	"gitops/change":  {"gitops/source", "gitops/preview", "desired", "desired/revision", "desired/validate", "observed", "reconciler", "platform", "product", "policies"},
	"gitops/sync": {
		"gitops/source", "gitops/preview", "gitops/change", "gitops/forge", "desired", "desired/revision", "desired/validate", "platform", "policies",
	},

	"platform": {"policies"}, // and lower layers
	// Spend limits are Policy objects.
	"platform/billing": {"policies", "desired"},
	// The consumers of events are in a table of webhooks and in one of notifications.
	"platform/notification/webhook": {"policies"},
	// The sets of keys that nodes trust.
	"platform/secret": {"policies", "protocol"},
	// The reports of nodes are stored until they are compared with the restored database.
	"platform/restore": {"policies", "protocol"},
	"product":          {"platform", "policies", "desired", "protocol"}, // and lower layers

	"services": {"gitops", "reconciler", "product", "platform", "policies", "desired", "desired/revision", "desired/validate", "observed"},

	// migrations: the schema of River's tables has its name there.
	"jobs": {
		"services", "jobs/nodetask", "jobs/retention", "jobs/money", "jobs/mails", "jobs/monitor", "jobs/stored", "jobs/evidence", "gitops", "reconciler", "platform", "product", "policies", "desired", "desired/revision", "observed", "protocol", "migrations",
	},
	"jobs/nodetask": {"protocol"},
	"jobs/money":    {"services", "platform", "product/slots"},
	"jobs/mails":    {"platform"},
	"jobs/monitor":  {},
	// Evidence collects the records of all packages through their services.
	"jobs/evidence": {"services", "jobs/nodetask", "gitops", "reconciler", "platform", "product", "policies", "desired", "desired/revision", "observed"},
	"jobs/stored":   {"product/storage/check"},
	// The statements that delete old rows are those of the owners.
	"jobs/retention": {"services", "jobs/nodetask", "gitops", "reconciler", "platform", "product", "policies", "observed", "desired/revision"},

	"api/openapi": {},
	// The contract lists the events that webhooks send.
	"api/openapi/gen": {"api/asyncapi"},
	"api/asyncapi":    {},
	"api/oapi":        {},
	"api/rest": {
		"services", "api/oapi", "api/openapi", "api/asyncapi", "api/stream", "platform", "product", "policies", "desired", "desired/revision", "observed",
		"reconciler", "gitops", "jobs/nodetask", "web", "docs", "protocol",
	},
	// Rights, rate limits and the headers of downloads are those of the REST API.
	"api/s3":       {"api/rest", "api/s3/sigv4", "api/s3/fault", "platform", "product/storage", "policies"},
	"api/s3/sigv4": {"api/s3/fault"},
	"api/s3/fault": {},
	"api/stream":   {"api/oapi", "platform", "product", "policies", "desired", "observed"},
	// A rejected handshake is a problem of the API.
	"api/terminal":        {"api/rest", "api/terminal/replay", "platform", "product", "policies"},
	"api/terminal/replay": {},
	// desired: the hint that notifies the loop. platform/secret: the validity of a node's
	// certificate, checked at every call.
	"api/nodeapi": {"protocol", "jobs/nodetask", "observed", "product/slots", "product/fleet", "product/nodehealth", "product/agentrelease", "desired", "platform/secret", "platform/restore"},

	// A hint notifies the poll of the node; the validity of certificates of nodes is checked for open streams.
	"api/terminal/relay": {"product/terminal", "jobs/nodetask", "platform/secret", "protocol"},
	"api/terminal/logs":  {"api/rest", "api/terminal/relay", "product/terminal", "protocol"},

	"server": {
		"services", "api", "jobs", "gitops", "product", "reconciler", "platform", "desired", "desired/revision", "desired/validate", "observed", "policies", "cue", "protocol",
		"migrations", "environments", "web", "docs",
	},
	"dev": {
		"server", "services", "api", "agent", "jobs", "gitops", "product", "reconciler", "platform", "desired", "desired/revision", "desired/validate", "observed", "policies",
		"cue", "protocol", "migrations", "environments", "web", "docs", "deploy",
	},

	// Offline commands use the logic of these packages without a server.
	"cli": {
		"cli", "api/oapi", "desired", "desired/revision", "desired/validate", "gitops", "platform", "product", "policies", "cue", "environments", "deploy", "docs",
	},
	// The schema of a restored database may be older than the command.
	"cli/backup":  {"cli", "migrations", "platform", "policies", "desired"},
	"cli/restore": {"cli", "migrations", "platform", "product", "desired"},
	"cli/local": {
		"cli", "api/oapi", "server", "dev", "agent", "desired", "desired/revision", "desired/validate", "gitops", "platform", "product", "policies", "cue",
		"environments", "deploy", "docs",
	},

	"cmd":     {anything},
	"e2e":     {anything},
	"scripts": {},
	// Compares the contract with the released one.
	"scripts/contractdiff": {"api/openapi"},
}

// notImported are folders that no other folder imports.
var notImported = []string{"cmd", "e2e", "scripts"}

// layers lists the packages of a group, lowest first. A package imports only lower layers. The
// sequence is total on purpose: if two packages need each other, one of them should queue a job.
var layers = map[string][]string{
	"platform": {"audit", "event", "identity", "secret", "catalog", "ledger", "payment", "metering", "billing", "notification", "evidence", "support", "backup", "restore"},
	"product":  {"slots", "fleet", "nodehealth", "agentrelease", "storage", "allocation", "recovery", "removal", "app", "terminal"},
}

// libraryRules restrict a library to the folders that may import it, in test files too.
var libraryRules = []struct {
	library []string
	only    []string // the only folders that may import it
	never   []string // or the folders that may not
}{
	{library: []string{"github.com/gin-gonic/gin", "go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic"}, only: []string{"api"}},
	// Handlers without middleware exist to measure the middleware.
	{library: []string{module + "/api/rest/bare"}, only: []string{"e2e"}},
	{library: []string{module + "/desired/validate/bare"}, only: []string{"e2e/bench"}},
	// dev/stripe is the double of Stripe. Stripe's own client tests it.
	{library: []string{"github.com/stripe/stripe-go"}, only: []string{"platform/payment/stripe", "dev/stripe", "dev/up"}},
	// Vault is one adapter of a port.
	{library: []string{"github.com/hashicorp/vault"}, only: []string{"platform/secret/vault"}},
	// A shell on the local machine: for simulated nodes and tests.
	{library: []string{"github.com/gliderlabs/ssh", "github.com/creack/pty"}, only: []string{"dev/simssh", "api/terminal"}},
	// S3 is one adapter of a port.
	{library: []string{"github.com/minio"}, only: []string{"product/storage/blob/s3", "platform/backup/store/s3", "api/s3", "e2e/bench/storage", "e2e/acceptance"}}, // the endpoint only in its tests
	// SMTP is one adapter of a port, and the server is for development and tests.
	{library: []string{"github.com/wneessen/go-mail"}, only: []string{"platform/notification/smtp"}},
	{library: []string{"github.com/emersion/go-smtp"}, only: []string{"dev/mail", "dev/up", "platform/notification/smtp"}},
	// Stored secrets have one format.
	{library: []string{"github.com/tink-crypto"}, only: []string{"internal/envelope"}},
	// The generators turn definitions and keys into Go. No program links them.
	{library: []string{"cuelang.org/go"}, only: []string{"desired/validate", "policies/gen", "protocol/fault/gen"}},
	// The scan finds what the removal has missed, so the two share no code.
	{library: []string{module + "/agent/linux/sweep"}, never: []string{"agent/linux/scan"}},
	{
		library: []string{"github.com/jackc/pgx", "github.com/riverqueue", "riverqueue.com", "database/sql"},
		never:   []string{"agent", "reconciler/plan", "reconciler/check", "gitops/preview", "product/slots/place", "product/agentrelease/rollout"},
	},
}

// unlinked are packages that the agent must not link, directly or indirectly. The agent runs as
// root on every node, and each of these adds a parser or a listener to it.
var unlinked = []string{
	"github.com/jackc/pgx", "github.com/riverqueue", "riverqueue.com", "github.com/pressly/goose",
	"github.com/gin-gonic", "github.com/getkin/kin-openapi", "github.com/oapi-codegen",
	"github.com/nats-io", "cuelang.org/go", "github.com/go-git", "github.com/hashicorp", module + "/migrations",
	"github.com/gliderlabs", "github.com/creack", "github.com/minio", module + "/dev",
}

// ruleOf returns the folder whose rule applies to a package, or "".
func ruleOf(pkg string) string {
	best := ""
	for folder := range importRules {
		if under(pkg, folder) && len(folder) > len(best) {
			best = folder
		}
	}
	return best
}

// unitOf returns the folder whose packages may import each other freely: a package with its
// adapters and its pure parts. In a group with layers this is the layer.
func unitOf(pkg string) string {
	if group, rest, ok := strings.Cut(pkg, "/"); ok && layers[group] != nil {
		layer, _, _ := strings.Cut(rest, "/")
		return group + "/" + layer
	}
	return ruleOf(pkg)
}

// violation returns why from may not import to, or "".
func violation(from, to string) string {
	may := importRules[ruleOf(from)]
	switch {
	case ruleOf(from) == "" || ruleOf(to) == "":
		return "has no import rule"
	case underAny(to, notImported) && unitOf(from) != unitOf(to):
		return "no package imports " + to
	case slices.Contains(may, anything), under(to, "internal"), unitOf(from) == unitOf(to):
		return ""
	case sameGroup(from, to):
		return layerViolation(from, to)
	}
	for _, allowed := range may {
		// A folder with its own rule is allowed by its own name, except below the folders whose parts
		// form one unit for the importer.
		if under(to, allowed) && (ruleOf(to) == ruleOf(allowed) || slices.Contains(wholeFolders, allowed)) {
			return ""
		}
	}
	return "may import only internal and " + strings.Join(may, ", ")
}

// wholeFolders are allowed together with the folders below them.
var wholeFolders = []string{"agent", "api", "cli", "dev", "gitops", "jobs", "platform", "protocol", "reconciler"}

func sameGroup(a, b string) bool {
	group, _, _ := strings.Cut(a, "/")
	return layers[group] != nil && under(b, group)
}

func layerViolation(from, to string) string {
	group, _, _ := strings.Cut(from, "/")
	order := layers[group]
	lower := slices.Index(order, strings.TrimPrefix(unitOf(to), group+"/"))
	upper := slices.Index(order, strings.TrimPrefix(unitOf(from), group+"/"))
	switch {
	case lower < 0 || upper < 0:
		return "has no layer in " + group
	case lower >= upper:
		return "is in a lower layer"
	}
	return ""
}
