// Package services builds the services of one role of the server. The API handlers and the workers
// receive the value whole, so a new service is one field here and nothing between.
package services

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/forge"
	gitopssync "github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	backuprecord "github.com/gpuaas/gpuaas/platform/backup/record"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/access"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/removal"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/check"
	"github.com/gpuaas/gpuaas/product/storage/signed"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
	"github.com/gpuaas/gpuaas/reconciler"
)

// Services contains every service of a role. All of them use the role's rights to the database.
type Services struct {
	DB       pg.Pool
	Policies *policies.Client
	Hints    *hint.Bus
	Naming   ids.Naming
	Clock    clock.Clock

	Desired  *revision.Store
	Observed *observed.Store
	History  *reconciler.History

	Identity      *identity.Service
	SignIn        *signin.Service
	Keys          *keys.Service
	Audit         *audit.Service
	Evidence      *evidence.Service
	Backups       *backuprecord.Service
	BackupRules   func() backuprecord.Rules
	Events        *event.Store
	Consumers     *consume.Store
	Notifications *notification.Service
	// WebhookEndpoints sends events to tenants; Webhooks receives those of forges.
	WebhookEndpoints *webhook.Service
	Certificates     *secret.Certificates
	Catalog          *catalog.Service
	Ledger           *ledger.Service
	Payments         *payment.Service
	AutoTopups       *autotopup.Service
	Metering         *metering.Service
	Billing          *billing.Service
	Statements       *billing.Statements

	Slots       *slots.Service
	Fleet       *fleet.Service
	NodeHealth  *nodehealth.Service
	Releases    *agentrelease.Store
	Allocations *allocation.Service
	Access      *access.Service
	Managed     *manage.Service
	Removal     *removal.Service
	Terminals   *terminal.Service
	Logs        *logstream.Service
	Storage     *storage.Service
	Signed      *signed.Service
	StorageKeys *accesskey.Service
	// StorageCheck compares the object store with the files.
	StorageCheck *check.Service
	Recordings   *recording.Service

	Changes  *change.Service
	Reports  *forge.Reports
	Webhooks *gitopssync.Webhooks
	// Credentials contains the secrets that Git sources refer to; nil contains none.
	Credentials *secretref.Credentials

	// Queue inserts jobs; Enqueue sets it.
	Queue *river.Client[pgx.Tx]
}

// Config contains the values that the services of a role need from the server.
type Config struct {
	DB       pg.Pool
	Policies *policies.Client
	Hints    *hint.Bus
	Naming   ids.Naming
	Clock    clock.Clock
	Log      *slog.Logger

	// Keys are the private keys of the API. They are nil in every other role.
	Keys *Keys
	// WebhookSeal has the data keys of the secrets of webhooks; nil in a role that does not open them.
	WebhookSeal identity.Sealer
	// RecordingSeal has the data keys of recordings; nil in a role that does not open them.
	RecordingSeal identity.Sealer
	// MountSeal has the data keys of the access keys of mounts; nil in a role that does not open them.
	MountSeal identity.Sealer
	// Development allows addresses of the local machine.
	Development bool
	// SignIn is the OIDC provider; nil without one.
	SignIn signin.Provider
	// JobIssuers are the trusted issuers of tokens of CI jobs, and VerifyJob validates such a token.
	JobIssuers []string
	VerifyJob  func(ctx context.Context, raw string) (signin.Job, error)
	// ReleaseKeys returns the public keys by which agent releases are accepted.
	ReleaseKeys func() map[string][]byte
	// Payments is the payment provider; nil where top-ups are off.
	Payments       payment.Provider
	PaymentMetrics *payment.Metrics
	// Credentials contains the secrets that Git sources refer to; nil contains none.
	Credentials *secretref.Credentials
	// Mailer sends e-mails from MailFrom. It is nil in every role but that of the workers.
	Mailer   mail.Mailer
	MailFrom string
	// AuditArchive is the folder that receives old months of the audit log; empty: they stay in the database.
	AuditArchive string
	// PublicURL returns the address under which browsers reach the server.
	PublicURL func() string
	// MountURL returns the URL at which nodes reach the S3 endpoint. Nil or empty: allocations have no mounts.
	MountURL func() string
	// Blobs is the object store; nil in a role that opens none.
	Blobs blob.Store
	// EvidenceSigner signs evidence bundles; nil in every role but that of the workers.
	EvidenceSigner secret.Signer
	// Environment is the name of the environment in evidence bundles.
	Environment string
}

// Keys are the private keys that the API uses.
type Keys struct {
	Tokens *signin.Tokens  // signs the tokens of service accounts
	Seal   identity.Sealer // encrypts stored secrets
	Users  secret.UserCA   // signs login certificates
}

// New builds the services of a role. It returns an error that names a required field of c if the
// field is missing.
func New(c Config) (*Services, error) {
	if err := Required(c, "SignIn", "JobIssuers", "VerifyJob", "Payments", "Naming", "Clock", "Credentials", "Keys", "AuditArchive", "Mailer", "MailFrom", "WebhookSeal", "RecordingSeal", "MountSeal", "MountURL", "Development", "Blobs", "EvidenceSigner", "Environment"); err != nil {
		return nil, err
	}
	if c.Keys != nil {
		if err := Required(*c.Keys); err != nil {
			return nil, err
		}
	} else {
		c.Keys = &Keys{}
	}
	schema := validate.NewLazy()
	s := &Services{DB: c.DB, Policies: c.Policies, Hints: c.Hints, Naming: c.Naming, Clock: c.Clock, Credentials: c.Credentials}
	s.Desired = &revision.Store{Store: &desired.Store{DB: c.DB, Hints: c.Hints, Check: schema.Check}}
	s.Observed = &observed.Store{DB: c.DB}
	s.History = &reconciler.History{DB: c.DB}
	s.Audit = &audit.Service{DB: c.DB, Archive: c.AuditArchive}
	s.Events = &event.Store{DB: c.DB}
	s.Consumers = &consume.Store{DB: c.DB, Naming: c.Naming, Once: webhook.ConsumerNames()}
	s.Notifications = &notification.Service{
		DB: c.DB, Naming: c.Naming, Clock: c.Clock, Policy: notification.PolicyFrom(c.Policies), Metrics: notification.NewMetrics(),
		Mail: notification.MailConfig{Mailer: c.Mailer, From: c.MailFrom, PublicURL: c.PublicURL},
	}
	s.addPlatform(c)
	s.WebhookEndpoints = webhook.New(webhook.Service{
		DB: c.DB, Identity: s.Identity, Notifications: s.Notifications, Clock: c.Clock, Seal: c.WebhookSeal, Sender: webhook.NewSender(c.Development),
		MaxEndpoints: webhook.MaxEndpointsFrom(c.Policies), Metrics: webhook.NewMetrics(c.DB),
	})
	s.StorageKeys = &accesskey.Service{DB: c.DB, Identity: s.Identity, Seal: c.Keys.Seal, MountSeal: c.MountSeal, MountURL: c.MountURL, Clock: c.Clock}
	s.addProduct(c)
	s.addTerminals(c)
	s.Storage = &storage.Service{DB: c.DB, Identity: s.Identity, Blobs: c.Blobs, Naming: c.Naming, Clock: c.Clock, Limits: storage.LimitsFrom(c.Policies), PublicURL: c.PublicURL}
	s.Signed = &signed.Service{Storage: s.Storage}
	s.Evidence = &evidence.Service{DB: c.DB, Identity: s.Identity, Files: c.Blobs, Signer: c.EvidenceSigner, Environment: c.Environment, Naming: c.Naming, Clock: c.Clock}
	s.Backups, s.BackupRules = &backuprecord.Service{DB: c.DB}, backuprecord.RulesFrom(c.Policies)
	s.StorageCheck = &check.Service{DB: c.DB, Blobs: c.Blobs, Clock: c.Clock, Others: s.Evidence.FilesAmong, UploadLife: func() time.Duration { return s.Storage.Limits(ids.Tenant{}, ids.Project{}).UploadLife }}
	s.addMoney(c)
	s.Removal = &removal.Service{Identity: s.Identity, Allocations: s.Allocations, Ledger: s.Ledger, Metering: s.Metering, Payments: s.Payments, AutoTopups: s.AutoTopups, Storage: s.Storage}
	s.addGitOps(c, schema)
	return s, Required(*s, "Naming", "Clock", "Queue", "Credentials")
}

func (s *Services) addPlatform(c Config) {
	s.Identity = &identity.Service{
		DB: c.DB, Clock: c.Clock, Naming: c.Naming, Hints: c.Hints, Seal: c.Keys.Seal, Policy: identity.PolicyFrom(c.Policies),
	}
	s.SignIn = &signin.Service{Service: s.Identity, Tokens: c.Keys.Tokens, Provider: c.SignIn, VerifyJob: c.VerifyJob}
	s.Keys = &keys.Service{Service: s.Identity, JobIssuers: c.JobIssuers}
	s.Catalog = &catalog.Service{DB: c.DB, Clock: c.Clock, Hints: c.Hints}
	s.Ledger = &ledger.Service{DB: c.DB}
	s.Metering = &metering.Service{DB: c.DB}
}

func (s *Services) addProduct(c Config) {
	s.Slots = &slots.Service{DB: c.DB, Hints: c.Hints, Rules: slots.RulesFrom(c.Policies)}
	s.Fleet = &fleet.Service{
		Service: s.Slots, Identity: s.Identity, Naming: c.Naming, Clock: c.Clock,
		TokenLife: fleet.TokenLifeFrom(c.Policies), Grace: fleet.DrainGraceFrom(c.Policies), Inspections: fleet.InspectionsFrom(c.Policies),
	}
	s.Certificates = &secret.Certificates{DB: c.DB, Barred: s.Fleet.Retired}
	s.Fleet.Certificates = s.Certificates
	s.NodeHealth = &nodehealth.Service{Service: s.Fleet, Rules: nodehealth.FaultRulesFrom(c.Policies)}
	s.Releases = &agentrelease.Store{DB: c.DB, Keys: c.ReleaseKeys, Naming: c.Naming, Clock: c.Clock}
	s.Allocations = &allocation.Service{
		DB: c.DB, Desired: s.Desired.Store, Inventory: s.NodeHealth, Catalog: s.Catalog, Identity: s.Identity, Metering: s.Metering, MountKeys: s.StorageKeys,
		Limits: allocation.LimitsFrom(c.Policies), Isolation: c.Policies.BySKU(policies.AllocationIsolationModel), ExpiryWarnings: allocation.ExpiryWarningsFrom(c.Policies), Signs: LoginSigner(c.Keys.Users), LoginLife: allocation.LoginLifeFrom(c.Policies),
		Naming: c.Naming, Hints: c.Hints, Clock: c.Clock,
	}
	s.Access = &access.Service{DB: c.DB, Allocations: s.Allocations, Rules: access.RulesFrom(c.Policies)}
	s.Managed = &manage.Service{
		Service: s.Allocations, ReleaseDeadline: allocation.ReleaseDeadlineFrom(c.Policies), ProvisionDeadline: allocation.ProvisionDeadlineFrom(c.Policies),
		IdleRules: manage.IdleRulesFrom(c.Policies), GPUsIdle: s.gpusIdle,
	}
}

// addTerminals builds the service of terminals. The server of the role terminal sets May.
func (s *Services) addTerminals(c Config) {
	limits := terminal.LimitsFrom(c.Policies)
	s.Logs = &logstream.Service{
		DB: c.DB, Naming: c.Naming, PerAllocation: func(tenant ids.Tenant, project ids.Project) int { return limits(tenant, project).PerAllocation },
	}
	s.Terminals = &terminal.Service{
		DB: c.DB, Identity: s.Identity, Hints: c.Hints, Naming: c.Naming, Clock: c.Clock, Limits: limits,
		Address: func() string { return "ws" + strings.TrimPrefix(strings.TrimRight(c.PublicURL(), "/"), "http") },
	}
	s.Recordings = &recording.Service{DB: c.DB, Seal: c.RecordingSeal, Naming: c.Naming, Clock: c.Clock}
}

// gpusIdle reads as reports do: two readings further apart than a report is evidence leave a gap.
func (s *Services) gpusIdle(ctx context.Context, node ids.Node, gpus []string, from, to time.Time, utilisation int) (bool, error) {
	v := s.Policies.Latest().For()
	gap := time.Duration(v.Int(policies.NodeReportSeconds)*v.Int(policies.NodeStaleAfterReports)) * time.Second
	return s.Observed.Idle(ctx, node, gpus, from, to, utilisation, gap)
}

func (s *Services) addMoney(c Config) {
	s.Payments = &payment.Service{
		DB: c.DB, Provider: c.Payments, Identity: s.Identity, Ledger: s.Ledger, Naming: c.Naming, Hints: c.Hints, Clock: c.Clock,
		Limits: payment.LimitsFrom(c.Policies), PublicURL: c.PublicURL, Metrics: c.PaymentMetrics, Log: c.Log,
	}
	s.AutoTopups = autotopup.New(s.Payments)
	s.Billing = &billing.Service{
		DB: c.DB, Identity: s.Identity, Ledger: s.Ledger, Metering: s.Metering, Running: s.Allocations, Files: s.Storage, Catalog: s.Catalog, Desired: s.Desired.Store,
		Payments: s.Payments, Metrics: billing.NewMetrics(), Policies: c.Policies, Policy: billing.PolicyFrom(c.Policies), Naming: c.Naming, Hints: c.Hints, Clock: c.Clock,
	}
	s.Statements = &billing.Statements{DB: c.DB, Identity: s.Identity, Ledger: s.Ledger, Metering: s.Metering, Clock: c.Clock}
}

func (s *Services) addGitOps(c Config, schema validate.Lazy) {
	facts := change.Gatherer{
		Desired: s.Desired.Store, Policies: c.Policies, Identity: s.Identity, Catalog: s.Catalog, Ledger: s.Ledger, Metering: s.Metering, Fleet: s.Fleet, Allocations: s.Allocations,
	}
	s.Changes = &change.Service{
		DB: c.DB, Desired: s.Desired, Identity: s.Identity, Gather: facts.Gather, History: s.History, Rules: change.RulesFrom(c.Policies), Roles: func() policies.RoleTable { return c.Policies.Latest().Roles },
		Normal: schema.Object, Validate: validate.Run, Naming: c.Naming, Hints: c.Hints, Clock: c.Clock,
	}
	s.Reports = &forge.Reports{DB: c.DB}
	s.Changes.Pushers = s.Reports.Pushers
	s.Webhooks = &gitopssync.Webhooks{DB: c.DB, Desired: s.Desired, Hints: c.Hints, Reports: s.Reports, Identity: s.Identity, Credentials: c.Credentials}
}

// Enqueue gives the services that insert jobs the client to insert them with.
func (s *Services) Enqueue(with *river.Client[pgx.Tx]) {
	s.Queue = with
	s.Keys.Jobs, s.Billing.Jobs, s.Payments.Jobs, s.Managed.Jobs = with, with, with, with
	s.Fleet.Jobs, s.Notifications.Jobs, s.WebhookEndpoints.Jobs = with, with, with
	s.Evidence.Jobs = with
	s.Identity.Rekey = s.Keys.Rekey
}

// loginSigner returns the function that signs a login certificate for one allocation, with a
// terminal.
// LoginSigner returns the function that makes login certificates; nil without an authority.
func LoginSigner(users secret.UserCA) func(context.Context, ssh.PublicKey, ids.Allocation, string, time.Duration) (allocation.Login, error) {
	if users == nil {
		return nil
	}
	return func(ctx context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
		c, err := users.Sign(ctx, secret.Login{Key: key, Allocation: id.String(), User: user, TTL: ttl, PTY: true})
		return allocation.Login{Certificate: c.Text, Serial: c.Serial, ExpiresAt: c.NotAfter}, err
	}
}

// Required returns an error that names the first field of a struct that is nil. A service without
// one of its parts would fail at its first use, long after the start.
func Required(of any, optional ...string) error {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if slices.Contains(optional, field.Name) {
			continue
		}
		if v.Field(i).IsZero() {
			return fmt.Errorf("services: %s.%s is missing", v.Type().Name(), field.Name)
		}
	}
	return nil
}
