package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// What the handlers ask of each room. The rooms' services satisfy these; tests
// fake them.
type (
	// Tokens says who calls.
	Tokens interface {
		Authenticate(ctx context.Context, token string) (identity.Caller, error)
		InProject(ctx context.Context, c identity.Caller, projectID string) (identity.Caller, error)
		Replay(ctx context.Context, k identity.Key) (r identity.Reply, found bool, err error)
	}
	// SignIns lets people in.
	SignIns interface {
		SignIn(ctx context.Context, v identity.Verified, o identity.Origin) (identity.User, error)
		SignInSession(ctx context.Context, v identity.Verified, n identity.NewSession) (identity.Started, error)
		PersonalLogin(ctx context.Context, email, password, kind string, o identity.Origin) (identity.Started, error)
		UseLink(ctx context.Context, code string, o identity.Origin) (identity.Started, error)
		SetPassword(ctx context.Context, c identity.Caller, old, fresh string) error
	}
	// Renewals renew what a sign-in gave, mint what a credential gives, and end it.
	Renewals interface {
		RefreshSession(ctx context.Context, token string, o identity.Origin) (identity.User, error)
		RefreshProgram(ctx context.Context, refresh string, o identity.Origin) (identity.Grant, identity.User, error)
		MintToken(ctx context.Context, secret string, scopes []string, audience string) (identity.Minted, error)
		Logout(ctx context.Context, c identity.Caller, token, refresh string) error
	}
	// Entrance is the way in, and out.
	Entrance interface {
		SignIns
		Renewals
	}
	// OIDC is the provider that people are sent to.
	OIDC interface {
		AuthCodeURL(ctx context.Context, redirect, state, nonce, verifier string) (string, error)
		Exchange(ctx context.Context, redirect, code, nonce, verifier string) (identity.Grant, error)
		Identify(ctx context.Context, idToken string) (identity.Verified, error)
	}
	// Tenants knows who owns.
	Tenants interface {
		Tenant(ctx context.Context, c identity.Caller) (identity.Tenant, error)
		TenantByID(ctx context.Context, id ids.Tenant) (identity.Tenant, error)
		Tenants(ctx context.Context, after string, limit int) ([]identity.Tenant, error)
		CreateTenant(ctx context.Context, ch identity.Change[identity.Tenant], name, currency string) (identity.Tenant, error)
		UpdateTenant(ctx context.Context, ch identity.Change[identity.Tenant], version int64, name string) (identity.Tenant, error)
	}
	// TenantMembers knows who is in a tenant, and who is asked in.
	TenantMembers interface {
		TenantMembers(ctx context.Context, c identity.Caller, after ids.User, limit int) ([]identity.Member, error)
		PutTenantMember(ctx context.Context, ch identity.Change[identity.Member], user ids.User, role string) (identity.Member, error)
		RemoveTenantMember(ctx context.Context, ch identity.Change[struct{}], user ids.User) error
		Invitations(ctx context.Context, c identity.Caller, after ids.Invitation, limit int) ([]identity.Invitation, error)
		Invite(ctx context.Context, ch identity.Change[identity.Invitation], email, role string) (identity.Invitation, error)
		RevokeInvitation(ctx context.Context, ch identity.Change[struct{}], id ids.Invitation) error
	}
	// Projects knows what scopes the use of a tenant.
	Projects interface {
		ProjectPage(ctx context.Context, c identity.Caller, after string, limit int) ([]identity.Project, error)
		ProjectByID(ctx context.Context, c identity.Caller, id ids.Project) (identity.Project, error)
		CreateProject(ctx context.Context, ch identity.Change[identity.Project], name, description string) (identity.Project, error)
		UpdateProject(ctx context.Context, ch identity.Change[identity.Project], id ids.Project, version int64, patch identity.ProjectPatch) (identity.Project, error)
	}
	// ProjectMembers knows who works in a project.
	ProjectMembers interface {
		ProjectMembers(ctx context.Context, c identity.Caller, project ids.Project, after ids.User, limit int) ([]identity.Member, error)
		PutProjectMember(ctx context.Context, ch identity.Change[identity.Member], project ids.Project, user ids.User, role string) (identity.Member, error)
		RemoveProjectMember(ctx context.Context, ch identity.Change[struct{}], project ids.Project, user ids.User) error
	}
	// ServiceAccounts knows the programs of a project.
	ServiceAccounts interface {
		ProjectOfAccount(ctx context.Context, c identity.Caller, id ids.ServiceAccount) (ids.Project, error)
		ServiceAccounts(ctx context.Context, c identity.Caller, project ids.Project, after string, limit int) ([]identity.ServiceAccount, error)
		ServiceAccountByID(ctx context.Context, c identity.Caller, id ids.ServiceAccount) (identity.ServiceAccount, error)
		CreateServiceAccount(ctx context.Context, ch identity.Change[identity.ServiceAccount], project ids.Project, n identity.NewServiceAccount) (identity.ServiceAccount, error)
		UpdateServiceAccount(ctx context.Context, ch identity.Change[identity.ServiceAccount], id ids.ServiceAccount, version int64, patch identity.ServiceAccountPatch) (identity.ServiceAccount, error)
		DeleteServiceAccount(ctx context.Context, ch identity.Change[struct{}], id ids.ServiceAccount, version int64) error
	}
	// Credentials keeps what programs sign in with.
	Credentials interface {
		Credentials(ctx context.Context, c identity.Caller, account ids.ServiceAccount, after ids.Credential, limit int) ([]identity.Credential, error)
		CreateCredential(ctx context.Context, ch identity.Change[identity.Credential], account ids.ServiceAccount, ttl time.Duration) (identity.Credential, error)
		RevokeCredential(ctx context.Context, ch identity.Change[struct{}], account ids.ServiceAccount, id ids.Credential) error
	}
	// Names knows what people call things.
	Names interface {
		NamesOf(ctx context.Context, q pg.Queryer, of []uuid.UUID) (map[uuid.UUID]string, error)
	}
	// Keys keeps what people's programs sign in with, and their public SSH keys.
	Keys interface {
		APIKeys(ctx context.Context, c identity.Caller, after ids.APIKey, limit int) ([]identity.APIKey, error)
		CreateAPIKey(ctx context.Context, ch identity.Change[identity.APIKey], n identity.NewAPIKey) (identity.APIKey, error)
		RevokeAPIKey(ctx context.Context, ch identity.Change[struct{}], id ids.APIKey) error
		AddSSHKey(ctx context.Context, ch identity.Change[identity.SSHKey], name, publicKey string) (identity.SSHKey, error)
		SSHKeys(ctx context.Context, c identity.Caller, after ids.SSHKey, limit int) ([]identity.SSHKey, error)
		DeleteSSHKey(ctx context.Context, ch identity.Change[struct{}], id ids.SSHKey) error
	}
	// Users knows everyone.
	Users interface {
		Users(ctx context.Context, f identity.UserFilter) ([]identity.User, error)
		UserByID(ctx context.Context, id ids.User) (identity.User, error)
		CreateUser(ctx context.Context, ch identity.Change[identity.User], n identity.NewUser) (identity.User, error)
		UpdateUser(ctx context.Context, ch identity.Change[identity.User], id ids.User, version int64, patch identity.UserPatch) (identity.User, error)
		UpdateMe(ctx context.Context, ch identity.Change[identity.User], version int64, name string) (identity.User, error)
	}
	// SignedIn knows where people are signed in.
	SignedIn interface {
		Sessions(ctx context.Context, c identity.Caller, after ids.Session, limit int) ([]identity.SessionInfo, error)
		AllSessions(ctx context.Context, user ids.User, after ids.Session, limit int) ([]identity.SessionInfo, error)
		EndSessionByID(ctx context.Context, ch identity.Change[struct{}], id ids.Session, anyone bool) error
	}
	// Tenancy is who owns what, and who may use it.
	Tenancy interface {
		Tenants
		TenantMembers
		Projects
		ProjectMembers
		Names
	}
	// Programs is what acts for a project.
	Programs interface {
		ServiceAccounts
		Credentials
	}
	// Everyone is who may sign in, and who has.
	Everyone interface {
		Users
		SignedIn
	}
	// Identity is all that this door asks of that room.
	Identity interface {
		Tokens
		Entrance
		Tenancy
		Programs
		Keys
		Everyone
	}
	// AuditLog reads who did what.
	AuditLog interface {
		Search(ctx context.Context, q audit.Query) ([]audit.Record, error)
		Export(ctx context.Context, q audit.Query, each func(audit.Record) error) error
	}
	// Catalog says what is sold.
	Catalog interface {
		Get(ctx context.Context, name string) (catalog.SKU, error)
		List(ctx context.Context, after string, limit int) ([]catalog.SKU, error)
	}
	// Allocations promises slots.
	Allocations interface {
		Request(ctx context.Context, r allocation.Request) (allocation.Allocation, error)
		Release(ctx context.Context, c identity.Caller, k identity.Key, id ids.Allocation, answer func(allocation.Allocation) identity.Reply) (allocation.Allocation, error)
		Get(ctx context.Context, c identity.Caller, id ids.Allocation) (allocation.Allocation, error)
		List(ctx context.Context, c identity.Caller, f allocation.Filter) ([]allocation.Allocation, error)
		Stays
		InUse
	}
	// Stays knows the past of one allocation, and the way into it.
	Stays interface {
		Timeline(ctx context.Context, c identity.Caller, id ids.Allocation) ([]allocation.Transition, error)
		Login(ctx context.Context, ch identity.Change[allocation.Login], id ids.Allocation, publicKey string) (allocation.Login, error)
	}
	// InUse knows what people and projects hold, and what they wait for.
	InUse interface {
		Pending(ctx context.Context, a allocation.Allocation, named bool) (allocation.Pending, error)
		CountActive(ctx context.Context, tenant ids.Tenant, user ids.User) (int, error)
		CommittedBurn(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project) (money.Minor, error)
		CloseProject(ctx context.Context, ch identity.Change[struct{}], id ids.Project, version int64) error
		Names(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]string, error)
	}
	// Metering knows what was used.
	Metering interface {
		Usage(ctx context.Context, q metering.Query) ([]metering.Usage, error)
		Intervals(ctx context.Context, tenant ids.Tenant, f metering.Filter) ([]metering.Record, error)
		EachInterval(ctx context.Context, tenant ids.Tenant, f metering.Filter, do func(metering.Record) error) error
		CostOf(ctx context.Context, of []ids.Allocation) (map[ids.Allocation]money.Minor, error)
		SpentSince(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project, since time.Time) (money.Minor, error)
	}
	// Ledger knows what has moved, and what is left.
	Ledger interface {
		Balance(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, string, error)
		Entries(ctx context.Context, tenant ids.Tenant, f ledger.Filter) ([]ledger.Entry, error)
		EachEntry(ctx context.Context, tenant ids.Tenant, f ledger.Filter, do func(ledger.Entry) error) error
	}
	// Billing knows how a tenant's money stands, and what it may spend.
	Billing interface {
		Status(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (billing.Status, error)
		Limits(ctx context.Context, c identity.Caller, project ids.Project) (billing.LimitsView, error)
		SetLimits(ctx context.Context, ch identity.Change[billing.LimitsView], project ids.Project, version int64, set billing.Limits) (billing.LimitsView, error)
		Adjust(ctx context.Context, ch identity.Change[billing.Adjustment], user ids.User, amount money.Minor, reason string) (billing.Adjustment, error)
	}
	// Statements tell what became of a tenant's money, month by month.
	Statements interface {
		Months(ctx context.Context, tenant ids.Tenant, before time.Time, limit int) ([]billing.Totals, error)
		Statement(ctx context.Context, tenant ids.Tenant, month time.Time) (billing.Statement, error)
	}
	// Checkouts bring money in.
	Checkouts interface {
		Begin(ctx context.Context, ch identity.Change[payment.Session], amount money.Minor) (payment.Session, error)
		Portal(ctx context.Context, c identity.Caller, returnURL string) (string, error)
		Session(ctx context.Context, c identity.Caller, id ids.PaymentSession) (payment.Session, error)
		Sessions(ctx context.Context, tenant ids.Tenant, after ids.PaymentSession, limit int) ([]payment.Session, error)
		Pending(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, error)
		Receive(ctx context.Context, body []byte, signature string) error
	}
	// Refunds give it back, and put right what went wrong on the way.
	Refunds interface {
		Credits(ctx context.Context, of []payment.Session) (map[ids.PaymentSession]payment.Credit, error)
		AllSessions(ctx context.Context, f payment.Filter, after ids.PaymentSession, limit int) ([]payment.Session, error)
		Reconcile(ctx context.Context, ch identity.Change[payment.Session], id ids.PaymentSession) (payment.Session, error)
		Refund(ctx context.Context, ch identity.Change[payment.Refund], r payment.RefundRequest) (payment.Refund, error)
		Refunds(ctx context.Context, tenant ids.Tenant, after ids.Refund, limit int) ([]payment.Refund, error)
	}
	// Payments is all that this door asks of that room.
	Payments interface {
		Checkouts
		Refunds
	}
	// Events follows facts. Open refuses before the first byte is written; what
	// it returns writes until the client goes or is too slow.
	Events interface {
		Open(ctx context.Context, tenant ids.Tenant, project ids.Project, after string) (func(http.ResponseWriter) error, error)
	}
)
