package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// settings is what a command talks to: a profile with flags and environment laid
// over it.
type settings struct {
	profile.Profile
	Name  string // empty when no profile is used
	Store profile.Store
}

// settings resolves in the order flag, environment, profile.
func (a *app) settings() (settings, error) {
	store, err := profile.Find(a.Env)
	if err != nil {
		return settings{}, err
	}
	file, err := store.Read()
	if err != nil {
		return settings{}, err
	}
	asked := cmp.Or(a.profile, a.Env("GPUAAS_PROFILE"))
	s := settings{Name: cmp.Or(asked, file.Current), Store: store}
	found, ok := file.Profiles[s.Name]
	switch {
	case ok:
		s.Profile = found
	case asked != "":
		return settings{}, errs.New(errs.NotFound, "there is no profile %q in %s", asked, store.Path).
			Try("one of: %s", strings.Join(slices.Sorted(maps.Keys(file.Profiles)), ", "))
	default:
		s.Name = ""
	}

	s.URL = strings.TrimRight(cmp.Or(a.url, a.Env("GPUAAS_URL"), found.URL), "/")
	s.Project = cmp.Or(a.project, a.Env("GPUAAS_PROJECT"), found.Project)
	if !sameOrigin(s.URL, found.URL) {
		// The rest of the profile is about another installation: its token must
		// not travel there, and its data is not what is being looked at.
		s.Profile = profile.Profile{URL: s.URL}
		s.Project = cmp.Or(a.project, a.Env("GPUAAS_PROJECT"))
	}
	token, err := a.secret("GPUAAS_TOKEN")
	if err != nil {
		return settings{}, err
	}
	if token != "" {
		s.Token, s.RefreshToken, s.ExpiresAt = token, "", time.Time{}
		if strings.HasPrefix(token, secretPrefix) {
			// A program is in its own project, whatever the person's profile is about.
			s.Project = cmp.Or(a.project, a.Env("GPUAAS_PROJECT"))
		}
	}
	return s, nil
}

// operatorProfile is the profile of an operator of the same installation, which
// up writes beside a tenant's; empty when there is none.
func (a *app) operatorProfile() string {
	s, err := a.settings()
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

func (a *app) secret(name string) (string, error) { return secretOf(a.Env, name) }

// secretOf reads NAME, or the file that NAME_FILE names.
func secretOf(env func(string) string, name string) (string, error) {
	if value := env(name); value != "" {
		return value, nil
	}
	path := env(name + "_FILE")
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %s_FILE: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

func sameOrigin(x, y string) bool {
	a, errA := url.Parse(x)
	b, errB := url.Parse(y)
	return errA == nil && errB == nil && a.Scheme == b.Scheme && a.Host == b.Host
}

// address checks that there is one and that a token may be sent there.
func (s settings) address() error {
	if s.URL == "" {
		return errs.New(errs.TokenMissing, "no installation is known: there is no profile, and GPUAAS_URL is not set").
			Try("gpuaas up, or gpuaas login --url ADDRESS")
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errs.Invalid("url", "%q is no http or https address", s.URL).Try("like https://gpuaas.example or http://127.0.0.1:8080")
	}
	return nil
}
