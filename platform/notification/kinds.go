package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
	"github.com/gpuaas/gpuaas/policies"
)

// Severity is the urgency of a notification.
type Severity string

// The severities.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical" // allocations or access end without an action of the user
)

// kind is a kind of notification.
type kind struct {
	name            string
	stream, subject string
	audience        audience
	severity        Severity
	enabled         policies.BoolKey // empty: no policy disables it
	screen          string           // of the portal, which an e-mail links; one that ends with / continues with the id of the resource
	title           string
	// message names cause, effect on money, deadline and next step. A field that an event lacks is a failure.
	message string
}

// distinct reports whether another message is another notification with another e-mail: its deadline has changed, and the
// allocation ends then.
func (k kind) distinct() bool { return k.severity == Critical || k.name == "expiring" }

// mutable reports whether a user may switch the kind off in the application. The critical ones are depletion, scheduled
// releases and lost access.
func (k kind) mutable() bool { return k.severity != Critical }

// defaults returns how users are notified who have no choice, and whose tenant has none.
func (k kind) defaults(c Channel) Value {
	if c == Email && k.severity == Info && k.name != WebhookRecovered { // its owners have an e-mail that it is disabled
		return Off
	}
	return Now
}

// EmailDefault returns how the users of a kind receive its e-mails who have no choice, and whose tenant has none.
func EmailDefault(name string) Value {
	k, err := kindNamed(name)
	if err != nil {
		return Off
	}
	return k.defaults(Email)
}

// audience is a group of users.
type audience struct {
	name  string
	roles func(event.Event) identity.Roles
}

// users returns the members of the group who are not disabled.
func (a audience) users(ctx context.Context, q pg.Queryer, e event.Event) ([]uuid.UUID, error) {
	if a.roles != nil {
		return identity.UsersWithRoles(ctx, q, e.Tenant, e.Project, a.roles(e))
	}
	var about struct {
		User ids.User `json:"user_id"`
	}
	if err := json.Unmarshal(e.Payload, &about); err != nil {
		return nil, fmt.Errorf("reading the user of event %s: %w", e.ID, err)
	}
	return pg.List(ctx, q, "users", selectActive, pgx.RowTo[uuid.UUID], about.User)
}

func roles(r identity.Roles) func(event.Event) identity.Roles {
	return func(event.Event) identity.Roles { return r }
}

var (
	// ofProject are the user who owns the allocation, and the administrators of its project.
	ofProject = audience{"owner of the allocation, and admins of the project", func(e event.Event) identity.Roles {
		var about struct {
			User ids.User `json:"user_id"`
		}
		_ = json.Unmarshal(e.Payload, &about) // the events of older releases name no user
		return identity.Roles{Project: []string{"admin"}, User: about.User}
	}}
	ofMoney    = audience{"owners and billing users of the tenant", roles(identity.Roles{Tenant: []string{"owner", "billing"}})}
	ofPlatform = audience{"administrators and operators of the platform", roles(identity.Roles{Platform: []string{"admin", "operator"}})}
	// ofLost is the user whom the event names, also one who is in no tenant any more.
	ofLost     = audience{name: "the user who has lost the access"}
	ofWebhooks = audience{"owners of the tenant, and administrators of the project of the webhook", roles(identity.Roles{Tenant: []string{"owner"}, Project: []string{"admin"}})}
	// ofNode are the owners of a tenant with allocations on the node, or operators.
	ofNode = audience{"owners of tenants with allocations on the node, and operators", func(e event.Event) identity.Roles {
		if e.Tenant == (ids.Tenant{}) {
			return ofPlatform.roles(e)
		}
		return identity.Roles{Tenant: []string{"owner"}}
	}}
)

// kinds returns the table of kinds.
func kinds() []kind {
	return []kind{
		{
			"provision_active", event.StreamProvisioning, "provisioning.active", ofProject, Info, policies.NotificationProvisioningEnabled, "allocations/", "Allocation is active",
			`Allocation {{.allocation_id}} is active since {{time .active_at}}. It costs {{money .price_per_hour_minor .currency}} per hour until its release.`,
		},
		{
			"provision_failed", event.StreamProvisioning, "provisioning.failed", ofProject, Warning, policies.NotificationProvisioningEnabled, "allocations/", "Provisioning failed",
			`Allocation {{.allocation_id}} was not provisioned: {{.message}}. Nothing was charged. Create it again.`,
		},
		{
			"releasing_completed", event.StreamProvisioning, "provisioning.releasing.completed", ofProject, Info, policies.NotificationProvisioningEnabled, "allocations/", "Allocation was released",
			`Allocation {{.allocation_id}} was released at {{time .released_at}}. It was charged for {{.seconds}} seconds: {{money .cost_minor .currency}}.`,
		},
		{
			"release_failed", event.StreamProvisioning, "provisioning.release_failed", ofProject, Warning, policies.NotificationProvisioningEnabled, "allocations/", "Release failed",
			`The release of allocation {{.allocation_id}} failed after {{.attempts}} attempts: {{.release_failed_reason}}. It is not charged. An operator inspects its slots.`,
		},
		{
			"expiring", event.StreamProvisioning, "provisioning.expiring", ofProject, Warning, policies.NotificationProvisioningEnabled, "allocations/", "Allocation expires",
			`Allocation {{.allocation_id}} is released at {{time .expires_at}}, the end of its TTL. Extend the TTL to continue.`,
		},
		{
			"release_scheduled", event.StreamProvisioning, "provisioning.release_scheduled", ofProject, Critical, "", "allocations/", "Release is scheduled",
			`Allocation {{.allocation_id}} is released at {{time .deadline_at}}: {{.message}}. It is charged until then. Store your data before.`,
		},
		{
			"release_cancelled", event.StreamProvisioning, "provisioning.release_cancelled", ofProject, Info, "", "allocations/", "Scheduled release is cancelled",
			`Allocation {{.allocation_id}} is not released: {{.message}}.`,
		},
		{
			"degraded", event.StreamProvisioning, "provisioning.degraded", ofProject, Warning, policies.NotificationProvisioningEnabled, "allocations/", "Allocation is not confirmed",
			`The platform cannot confirm since {{time .since}} that allocation {{.allocation_id}} works: {{.cause}}. It is not charged until it recovers.`,
		},
		{
			"recovered", event.StreamProvisioning, "provisioning.recovered", ofProject, Info, policies.NotificationProvisioningEnabled, "allocations/", "Allocation has recovered",
			`Allocation {{.allocation_id}} works again. It is charged from {{time .charged_from}}.`,
		},
		{
			"access_lost", event.StreamProvisioning, revocation.SubjectAccessLost, ofLost, Critical, "", "profile", "Access has ended",
			`{{if eq .reason "account_disabled"}}The account is disabled.{{else if eq .reason "role_removed"}}The role on the platform was removed.` +
				`{{else}}The membership in {{if eq .scope "project"}}project{{with index . "name"}} {{.}}{{end}}{{else}}the tenant{{end}} was removed. ` +
				`Allocations there continue, and the tenant pays for them.{{end}} ` +
				`To have access again, contact {{if eq .scope "tenant"}}an owner of the tenant{{else}}an administrator of the {{.scope}}{{end}}.`,
		},
		{
			"low_balance", event.StreamBilling, "billing.low_balance_warning", ofMoney, Warning, policies.NotificationLowBalanceEnabled, "billing", "Balance is low",
			`The balance is {{money .balance_minor .currency}}, below {{money .threshold_minor .currency}}. It falls by {{money .burn_per_hour_minor .currency}} per hour` +
				`{{with index . "runway_minutes"}} and lasts {{.}} minutes{{end}}. Top it up.`,
		},
		{
			"auto_release_pending", event.StreamBilling, "billing.auto_release_pending", ofMoney, Critical, policies.NotificationLowBalanceEnabled, "billing", "Allocations are released soon",
			`The balance of {{money .balance_minor .currency}} lasts {{.runway_minutes}} minutes. At {{time .releases_at}} {{len .allocation_ids}} allocations are released. Top it up before.`,
		},
		{
			"auto_release_cleared", event.StreamBilling, "billing.auto_release_cleared", ofMoney, Info, policies.NotificationLowBalanceEnabled, "billing", "Allocations are not released",
			`The balance of {{money .balance_minor .currency}} is sufficient again. No allocation is released.`,
		},
		{
			"balance_depleted", event.StreamBilling, "billing.balance_depleted", ofMoney, Critical, policies.NotificationBalanceDepletedEnabled, "billing", "Balance is depleted",
			`The balance is {{money .balance_minor .currency}}. {{len .allocation_ids}} allocations were released. Top it up to create new ones.`,
		},
		{
			"storage_deletion_scheduled", event.StreamBilling, "billing.storage_deletion_scheduled", ofMoney, Critical, policies.NotificationBalanceDepletedEnabled, "billing", "Files will be deleted",
			`The balance is {{money .balance_minor .currency}}. All files of the tenant are deleted at {{time .deletes_at}}, in {{.days_left}} days. Top it up before.`,
		},
		{
			"storage_deletion_cancelled", event.StreamBilling, "billing.storage_deletion_cancelled", ofMoney, Info, policies.NotificationBalanceDepletedEnabled, "billing", "Files are not deleted",
			`The balance is {{money .balance_minor .currency}}. The deletion of files is cancelled.`,
		},
		{
			"storage_deleted", event.StreamBilling, "billing.storage_deleted", ofMoney, Critical, policies.NotificationBalanceDepletedEnabled, "billing", "Files were deleted",
			`The balance is {{money .balance_minor .currency}}. {{.deleted_objects}} files and folders were deleted for good.`,
		},
		{
			"balance_credited", event.StreamPayments, "payments.balance_credited", ofMoney, Info, "", "billing", "Balance was credited",
			`A payment credited {{money .amount_minor .currency}} to the balance.`,
		},
		{
			"refunded", event.StreamPayments, "payments.refunded", ofMoney, Info, "", "billing", "Refund was completed",
			`{{money .amount_minor .currency}} were refunded ({{.route}}).`,
		},
		{
			"node_retiring", event.StreamFleet, "fleet.node_retiring", ofNode, Warning, "", "allocations", "Node will be retired",
			`{{with index . "name"}}Node {{.}}{{else}}A node with your allocations{{end}} is retired at {{time .retires_at}}: {{.reason}}. Release or move its allocations before.`,
		},
		{
			"dead_letter", event.StreamDLQ, "dlq.>", ofPlatform, Warning, "", "ops", "Events are not processed",
			`An event {{.event_type}} has become a dead letter. Retry or discard it: gpuaas events dead-letters.`,
		},
	}
}

// directKinds returns the kinds that a package above notifies of without an event.
func directKinds() []kind {
	return []kind{
		{name: WebhookDisabled, audience: ofWebhooks, severity: Warning, screen: "webhooks/", title: "Webhook is disabled"},
		{name: WebhookRecovered, audience: ofWebhooks, severity: Info, screen: "webhooks/", title: "Webhook works again"},
	}
}

// The kinds without an event.
const (
	WebhookDisabled  = "webhook_disabled"
	WebhookRecovered = "webhook_recovered"
)

// content is the text of a notification.
type content struct{ urn, title, message string }

var texts = func() map[string]*template.Template {
	functions := template.FuncMap{"money": formatMoney, "time": formatTime}
	all := map[string]*template.Template{}
	for _, k := range kinds() {
		all[k.name] = template.Must(template.New(k.name).Option("missingkey=error").Funcs(functions).Parse(k.message))
	}
	return all
}()

func (k kind) render(e event.Event) (content, error) {
	fields, err := k.fields(e)
	if err != nil {
		return content{}, err
	}
	var message bytes.Buffer
	if err := texts[k.name].Execute(&message, fields); err != nil {
		return content{}, fmt.Errorf("writing the notification of event %s: %w", e.ID, err)
	}
	urn, _ := fields["urn"].(string)
	return content{urn: urn, title: k.title, message: message.String()}, nil
}

// fields returns the fields for the template. The message of a dead letter needs no payload, because an event that was
// too large for NATS has none.
func (k kind) fields(e event.Event) (map[string]any, error) {
	if k.stream == event.StreamDLQ {
		return map[string]any{"event_type": e.Type}, nil
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(e.Payload))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("reading the payload of event %s: %w", e.ID, err)
	}
	return fields, nil
}

func formatMoney(minor json.Number, currency string) (string, error) {
	n, err := minor.Int64()
	if err != nil {
		return "", fmt.Errorf("reading an amount: %w", err)
	}
	return money.Format(currency, money.Minor(n)), nil
}

func formatTime(text string) (string, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "", fmt.Errorf("reading a time: %w", err)
	}
	return at.UTC().Format("2006-01-02 15:04 UTC"), nil
}
