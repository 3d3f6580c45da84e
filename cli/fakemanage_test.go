package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// tenancyFake is the part of the fake that tenancy commands talk to.
type tenancyFake struct {
	next        int
	tenants     []oapi.Tenant // the first is the caller's
	projects    []oapi.Project
	members     []oapi.Member // of the tenant
	workers     []oapi.Member // of the project default
	invitations []oapi.Invitation
	own         []oapi.OwnInvitation
	programs    []oapi.ServiceAccount
	credentials []oapi.Credential
	apiKeys     []oapi.ApiKey
	sessions    []oapi.Session
	users       []oapi.User
	minted      int // tokens that were traded for the credential
	patched     int // changes that found the version they named
	requests    []string
}

// goodCredential is the one credential that the fake exchanges for a token.
const goodCredential = "gps_good"

func newPeople() tenancyFake {
	p := tenancyFake{next: 100}
	tenant := func(n int, name string) oapi.Tenant {
		return oapi.Tenant{Id: id(n), Urn: "u", Name: name, Currency: "EUR", Version: 1, CreatedAt: birth}
	}
	p.tenants = []oapi.Tenant{tenant(4, "dev"), tenant(5, "acme")}
	p.projects = []oapi.Project{{Id: id(2), Urn: "u", Name: "default", Role: "admin", Version: 1, CreatedAt: birth}}
	p.members = []oapi.Member{{UserId: id(3), Email: "dev@dev.localhost", Name: "Dev", Role: "owner"}, {UserId: id(6), Email: "builder@dev.localhost", Name: "Bui\nlder\x1b[2J", Role: "member"}}
	p.workers = slices.Clone(p.members[1:])
	for _, m := range p.members {
		p.users = append(p.users, oapi.User{
			Id: m.UserId, Email: m.Email, Name: m.Name, Role: "user", RoleFrom: "platform", Issuer: "local",
			Tenant: &oapi.Membership{Id: id(4), Name: "dev", Role: m.Role}, Version: 1, CreatedAt: birth,
		})
	}
	for n, name := range []string{"acme", "vision"} {
		p.own = append(p.own, oapi.OwnInvitation{Id: id(60 + n), Tenant: oapi.Membership{Id: id(70 + n), Name: name, Role: "member"}, CreatedAt: birth, ExpiresAt: birth})
	}
	p.sessions = []oapi.Session{{Id: id(8), UserId: id(3), Kind: "browser", Issuer: "local", Address: "192.0.2.1", UserAgent: "Firefox", Current: true, CreatedAt: birth, ExpiresAt: birth}}
	return p
}

// manage answers the operations of tenancy; false: it is none of them.
func (f *fake) manage(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) bool {
	p := &f.people
	p.requests = append(p.requests, operation+"?"+r.URL.RawQuery)
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method != http.MethodGet && r.Header.Get("X-Idempotency-Key") == "" {
		f.t.Errorf("%s carries no key: repeated, it would be done twice", operation)
	}
	answers := map[string]func(){
		"getTenant":     func() { f.writeVersioned(w, r, p.tenants[0], p.tenants[0].Version) },
		"getTenantByID": func() { t := at(p.tenants, params["tenant_id"], tenantID); f.writeVersioned(w, r, *t, t.Version) },
		"updateTenant": func() {
			f.patch(w, r, &p.tenants[0].Version, func() any { read(body, &p.tenants[0]); return p.tenants[0] })
		},
		"listTenants": func() { f.page(w, r, toAny(p.tenants), 1) },
		"createTenant": func() {
			make1(f, w, body, &p.tenants, oapi.Tenant{Urn: "u", Currency: "EUR"}, func(t *oapi.Tenant) *uuid.UUID { t.Version, t.CreatedAt = 1, birth; return &t.Id })
		},
		"placeTenantMember": func() { f.member(w, &p.members, params, body) },

		"listTenantMembers":  func() { f.page(w, r, toAny(p.members), 1) },
		"putTenantMember":    func() { f.member(w, &p.members, params, body) },
		"deleteTenantMember": func() { drop(f, w, r, &p.members, params["user_id"], memberID) },
		"listInvitations":    func() { f.page(w, r, toAny(p.invitations), 50) },
		"createInvitation": func() {
			make1(f, w, body, &p.invitations, oapi.Invitation{CreatedAt: birth, ExpiresAt: birth}, func(i *oapi.Invitation) *uuid.UUID { return &i.Id })
		},
		"deleteInvitation": func() { drop(f, w, r, &p.invitations, params["id"], func(i oapi.Invitation) uuid.UUID { return i.Id }) },

		"listOwnInvitations": func() { f.page(w, r, toAny(p.own), 50) },
		"acceptInvitation":   func() { drop(f, w, r, &p.own, params["own_invitation_id"], ownInvitationID) },
		"declineInvitation":  func() { drop(f, w, r, &p.own, params["own_invitation_id"], ownInvitationID) },
		"deleteTenant":       func() { drop(f, w, r, &p.tenants, params["tenant_id"], tenantID) },
		"deleteUser":         func() { drop(f, w, r, &p.users, params["user_id"], userID) },

		"listProjects": func() { f.page(w, r, toAny(p.projects), 1) },
		"createProject": func() {
			make1(f, w, body, &p.projects, oapi.Project{Urn: "u", Role: "admin"}, func(v *oapi.Project) *uuid.UUID { v.Version, v.CreatedAt = 1, birth; return &v.Id })
		},
		"getProject": func() { v := at(p.projects, params["project_id"], projectID); f.writeVersioned(w, r, *v, v.Version) },
		"updateProject": func() {
			v := at(p.projects, params["project_id"], projectID)
			f.patch(w, r, &v.Version, func() any { read(body, v); return *v })
		},
		"deleteProject": func() {
			f.fresh(w, r, at(p.projects, params["project_id"], projectID).Version, func() { drop(f, w, r, &p.projects, params["project_id"], projectID) })
		},
		"listProjectMembers":  func() { f.page(w, r, toAny(p.workers), 50) },
		"putProjectMember":    func() { f.member(w, &p.workers, params, body) },
		"deleteProjectMember": func() { drop(f, w, r, &p.workers, params["user_id"], memberID) },

		"listServiceAccounts": func() { f.page(w, r, toAny(p.programs), 50) },
		"createServiceAccount": func() {
			make1(f, w, body, &p.programs, oapi.ServiceAccount{Urn: "u", ProjectId: uuid.MustParse(params["project_id"])}, func(s *oapi.ServiceAccount) *uuid.UUID { s.Version, s.CreatedAt = 1, birth; return &s.Id })
		},
		"getServiceAccount": func() {
			s := at(p.programs, params["service_account_id"], programID)
			f.writeVersioned(w, r, *s, s.Version)
		},
		"updateServiceAccount": func() {
			s := at(p.programs, params["service_account_id"], programID)
			f.patch(w, r, &s.Version, func() any { read(body, s); return *s })
		},
		"deleteServiceAccount": func() {
			f.fresh(w, r, at(p.programs, params["service_account_id"], programID).Version, func() { drop(f, w, r, &p.programs, params["service_account_id"], programID) })
		},
		"listCredentials": func() { f.page(w, r, toAny(p.credentials), 50) },
		"createCredential": func() {
			var asked oapi.CredentialRequest
			read(body, &asked)
			made := oapi.CreatedCredential{Id: p.id(), CreatedAt: birth, Federation: asked.Federation}
			if made.Federation == nil {
				made.Secret = new(goodCredential)
			}
			p.credentials = append(p.credentials, oapi.Credential{Id: made.Id, CreatedAt: birth, Federation: made.Federation})
			w.Header().Set("Location", "/x")
			reply(w, http.StatusCreated, made)
		},
		"deleteCredential": func() {
			drop(f, w, r, &p.credentials, params["credential_id"], func(c oapi.Credential) uuid.UUID { return c.Id })
		},

		"listApiKeys": func() { f.page(w, r, toAny(p.apiKeys), 50) },
		"createApiKey": func() {
			k := oapi.ApiKey{Id: p.id(), CreatedAt: birth, Scopes: []oapi.Scope{}}
			read(body, &k)
			p.apiKeys = append(p.apiKeys, k)
			w.Header().Set("Location", "/x")
			reply(w, http.StatusCreated, oapi.CreatedApiKey{Id: k.Id, Name: k.Name, Scopes: k.Scopes, CreatedAt: birth, Secret: "gpk_secret"})
		},
		"deleteApiKey":    func() { drop(f, w, r, &p.apiKeys, params["id"], func(k oapi.ApiKey) uuid.UUID { return k.Id }) },
		"listSessions":    func() { f.page(w, r, toAny(p.sessions), 50) },
		"endSession":      func() { drop(f, w, r, &p.sessions, params["id"], func(s oapi.Session) uuid.UUID { return s.Id }) },
		"listAllSessions": func() { f.page(w, r, toAny(p.sessions), 50) },
		"endAnySession":   func() { drop(f, w, r, &p.sessions, params["id"], func(s oapi.Session) uuid.UUID { return s.Id }) },

		"listUsers": func() { f.page(w, r, toAny(p.found(r.URL.Query().Get("q"))), 50) },
		"createUser": func() {
			make1(f, w, body, &p.users, oapi.User{Role: "user", RoleFrom: "platform", Issuer: "local"}, func(u *oapi.User) *uuid.UUID { u.Version, u.CreatedAt = 1, birth; return &u.Id })
		},
		"getUser": func() {
			u := at(p.users, params["user_id"], userID)
			f.writeVersioned(w, r, oapi.UserDetail{
				Id: u.Id, Email: u.Email, Name: u.Name, Role: u.Role, RoleFrom: oapi.UserDetailRoleFrom(u.RoleFrom), Issuer: u.Issuer, Tenant: u.Tenant, Disabled: u.Disabled,
				Version: u.Version, CreatedAt: u.CreatedAt, ActiveAllocations: 2, Balance: &oapi.Money{AmountMinor: 98904, Currency: "EUR"},
			}, u.Version)
		},
		"updateUser": func() {
			u := at(p.users, params["user_id"], userID)
			f.patch(w, r, &u.Version, func() any { read(body, u); return *u })
		},

		"listAuditLogs":        func() { f.page(w, r, toAny(audits(5)), 2) },
		"listAdminAuditLogs":   func() { f.page(w, r, toAny(audits(5)), 2) },
		"exportAuditLogs":      func() { f.export(w, r) },
		"exportAdminAuditLogs": func() { f.export(w, r) },
	}
	do, ok := answers[operation]
	if ok {
		do()
	}
	return ok || f.money(w, r, operation, params, body)
}

func tenantID(t oapi.Tenant) uuid.UUID          { return t.Id }
func projectID(v oapi.Project) uuid.UUID        { return v.Id }
func programID(s oapi.ServiceAccount) uuid.UUID { return s.Id }
func memberID(m oapi.Member) uuid.UUID          { return m.UserId }
func userID(u oapi.User) uuid.UUID              { return u.Id }

func ownInvitationID(i oapi.OwnInvitation) uuid.UUID { return i.Id }

func (p *tenancyFake) id() uuid.UUID {
	p.next++
	return id(p.next)
}

func (p *tenancyFake) found(text string) (all []oapi.User) {
	for _, u := range p.users {
		if strings.Contains(u.Email+" "+u.Name, text) {
			all = append(all, u)
		}
	}
	return all
}

func audits(n int) (all []oapi.AuditRecord) {
	for i := range n {
		all = append(all, oapi.AuditRecord{Id: id(200 + i), OccurredAt: birth, Actor: "user:" + id(3).String(), Action: "project.create", Target: "gpuaas:project", CorrelationId: "c-" + strconv.Itoa(i), ClientAddress: new("203.0.113.7"), UserAgent: new("curl/8\x1b[2J")})
	}
	return all
}

// export answers as many lines as a stream has; --actor broken, and a kind that is
// never there, break it off.
func (f *fake) export(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	if q := r.URL.Query(); q.Get("actor") == "broken" || q.Get("kind") == "refund_reversed" {
		w.WriteHeader(dropped)
		return
	}
	_, _ = fmt.Fprint(w, "id,at\n1,2026-01-05T09:00:00Z\n")
}

// mint trades the one good credential for a token that is a user's.
func (f *fake) mint(w http.ResponseWriter, r *http.Request) {
	var body oapi.TokenRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	if r.Header.Get("Authorization") != "" {
		f.t.Error("the credential was sent as a bearer token, too")
	}
	job := body.JobToken != nil && *body.JobToken == goodJobToken && body.ServiceAccountId != nil
	if !job && (body.Secret == nil || *body.Secret != goodCredential) {
		f.problem(w, r, http.StatusUnauthorized, "token_invalid", "the credential is not good", nil)
		return
	}
	f.people.minted++
	scopes := []oapi.Scope{"allocations:read", "allocations:write"}
	if body.Scopes != nil {
		scopes = *body.Scopes
	}
	reply(w, http.StatusOK, oapi.MintedToken{AccessToken: mintedPrefix + strconv.Itoa(f.people.minted), TokenType: "Bearer", ExpiresIn: 3600, Scopes: scopes})
}

// goodJobToken is the token of a CI job, as its forge has issued it.
const goodJobToken = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"

const mintedPrefix = "minted-"

// bearer is the token as the fake knows it.
func bearer(r *http.Request) string {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if strings.HasPrefix(token, mintedPrefix) {
		return userToken
	}
	return token
}

func (f *fake) writeVersioned(w http.ResponseWriter, _ *http.Request, v any, version int64) {
	w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(version, 10)))
	reply(w, http.StatusOK, v)
}

// fresh does what was meant for the version that is there.
func (f *fake) fresh(w http.ResponseWriter, r *http.Request, version int64, do func()) {
	switch tag := r.Header.Get("If-Match"); tag {
	case "":
		f.t.Errorf("%s %s does not name the version that it changes", r.Method, r.URL)
	case strconv.Quote(strconv.FormatInt(version, 10)):
		f.people.patched++
		do()
	default:
		f.problem(w, r, http.StatusPreconditionFailed, "version_mismatch", "it was changed meanwhile", nil)
	}
}

func (f *fake) patch(w http.ResponseWriter, r *http.Request, version *int64, do func() any) {
	f.fresh(w, r, *version, func() {
		*version++
		v := do()
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(*version, 10)))
		reply(w, http.StatusOK, v)
	})
}

func (f *fake) member(w http.ResponseWriter, in *[]oapi.Member, params map[string]string, body []byte) {
	user := uuid.MustParse(params["user_id"])
	m := oapi.Member{UserId: user, Email: "somebody@dev.localhost", Name: "Some Body"}
	if u := slices.IndexFunc(f.people.users, func(u oapi.User) bool { return u.Id == user }); u >= 0 {
		m.Email, m.Name = f.people.users[u].Email, f.people.users[u].Name
	}
	read(body, &m)
	*in = append(slices.DeleteFunc(*in, func(m oapi.Member) bool { return m.UserId == user }), m)
	reply(w, http.StatusOK, m)
}

func read(body []byte, into any) { _ = json.Unmarshal(body, into) }

// at finds one; what is nowhere is another one, without a version that could fit.
func at[T any](all []T, id string, of func(T) uuid.UUID) *T {
	for i := range all {
		if of(all[i]).String() == id {
			return &all[i]
		}
	}
	return new(T)
}

func make1[T any](f *fake, w http.ResponseWriter, body []byte, in *[]T, v T, finish func(*T) *uuid.UUID) {
	read(body, &v)
	*finish(&v) = f.people.id()
	*in = append(*in, v)
	w.Header().Set("Location", "/x")
	w.Header().Set("ETag", `"1"`)
	reply(w, http.StatusCreated, v)
}

func drop[T any](f *fake, w http.ResponseWriter, r *http.Request, in *[]T, id string, of func(T) uuid.UUID) {
	before := len(*in)
	*in = slices.DeleteFunc(*in, func(v T) bool { return of(v).String() == id })
	if len(*in) == before {
		f.problem(w, r, http.StatusNotFound, "not_found", "it does not exist", nil)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
