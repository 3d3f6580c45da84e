package client

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/profile"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// Settings describe the connection of a command: a profile, overridden by flags and environment.
type Settings struct {
	profile.Profile
	Name  string // empty when no profile is used
	Store profile.Store
	// JobToken is the token that a forge has issued to the CI job in which the command runs, and
	// ServiceAccount the account that the job acts as. Both are set or empty.
	JobToken       string
	ServiceAccount uuid.UUID
}

// ReadSettings resolves each setting from flag, environment and profile, in this sequence.
func ReadSettings(a *output.Console) (Settings, error) {
	store, err := profile.Find(a.Env)
	if err != nil {
		return Settings{}, err
	}
	file, err := store.Read()
	if err != nil {
		return Settings{}, err
	}
	asked := cmp.Or(a.Profile, a.Env("GPUAAS_PROFILE"))
	s := Settings{Name: cmp.Or(asked, file.Current), Store: store}
	found, ok := file.Profiles[s.Name]
	switch {
	case ok:
		s.Profile = found
	case asked != "":
		return Settings{}, errs.New(errs.NotFound, "profile %q does not exist in %s", asked, store.Path).
			Try("one of: %s", strings.Join(slices.Sorted(maps.Keys(file.Profiles)), ", "))
	default:
		s.Name = ""
	}

	s.URL = strings.TrimRight(cmp.Or(a.Url, a.Env("GPUAAS_URL"), found.URL), "/")
	s.Project = cmp.Or(a.Project, a.Env("GPUAAS_PROJECT"), found.Project)
	if !SameOrigin(s.URL, found.URL) {
		// The rest of the profile belongs to another installation. Its token must not be sent to
		// this one.
		s.Profile = profile.Profile{URL: s.URL}
		s.Project = cmp.Or(a.Project, a.Env("GPUAAS_PROJECT"))
	}
	token, err := secret(a, "GPUAAS_TOKEN")
	if err != nil {
		return Settings{}, err
	}
	if token != "" {
		s.Token, s.RefreshToken, s.ExpiresAt = token, "", time.Time{}
		if strings.HasPrefix(token, secretPrefix) {
			// A program is in its own project, whatever the person's profile is about.
			s.Project = cmp.Or(a.Project, a.Env("GPUAAS_PROJECT"))
		}
	}
	return s, s.readJob(a)
}

// readJob reads the token of a CI job. GPUAAS_TOKEN has priority.
func (s *Settings) readJob(a *output.Console) error {
	token, err := secret(a, "GPUAAS_JOB_TOKEN")
	if err != nil || token == "" || a.Env("GPUAAS_TOKEN") != "" {
		return err
	}
	if s.ServiceAccount, err = uuid.Parse(a.Env("GPUAAS_SERVICE_ACCOUNT")); err != nil {
		return errs.Invalid("GPUAAS_SERVICE_ACCOUNT", "GPUAAS_JOB_TOKEN needs the id of a service account").Try("gpuaas service-account list -o name")
	}
	s.JobToken, s.Token, s.RefreshToken, s.ExpiresAt = token, "", "", time.Time{}
	s.Project = cmp.Or(a.Project, a.Env("GPUAAS_PROJECT"))
	return nil
}

// OperatorProfile returns the operator profile of the same installation, which up writes next to a
// tenant's. It is empty if there is none.
func OperatorProfile(a *output.Console) string {
	s, err := ReadSettings(a)
	if err != nil || s.Name == "" {
		return ""
	}
	file, err := s.Store.Read()
	name := s.Name + "-operator"
	if other, ok := file.Profiles[name]; err == nil && ok && other.URL == s.URL {
		return name
	}
	return ""
}

func secret(a *output.Console, name string) (string, error) { return secretref.FromEnv(a.Env, name) }

func SameOrigin(x, y string) bool {
	a, errA := url.Parse(x)
	b, errB := url.Parse(y)
	return errA == nil && errB == nil && a.Scheme == b.Scheme && a.Host == b.Host
}

// Address checks that there is one and that a token may be sent there.
func (s Settings) Address() error {
	if s.URL == "" {
		return errs.New(errs.TokenMissing, "no installation: there is no profile, and GPUAAS_URL is not set").
			Try("gpuaas up, or gpuaas login --url ADDRESS")
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errs.Invalid("url", "%q is no http or https address", s.URL).Try("like https://gpuaas.example or http://127.0.0.1:8080")
	}
	return nil
}

// OperatorHint returns a hint in brackets if an operator profile exists.
func OperatorHint(a *output.Console) string {
	if name := OperatorProfile(a); name != "" {
		return " (--profile " + name + ")"
	}
	return ""
}
