package oidc

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	signInWithin = 10 * time.Minute // a person may read before choosing
	codeFor      = time.Minute
	deviceFor    = 10 * time.Minute
	refreshFor   = 30 * 24 * time.Hour
)

// grant is the consent of a user to a client.
type grant struct {
	client, subject string
	scopes          []string
	nonce           string
	acr             []string // that the client requested
	at              time.Time
}

// family contains all refresh tokens of one sign-in.
type family struct {
	grant

	revoked bool
}

// pendingSignIn is a pending sign-in: the user has not chosen an identity yet.
type pendingSignIn struct {
	grant

	redirect, state, challenge string
	until                      time.Time
}

// code is an authorisation code of a completed sign-in.
type code struct {
	pendingSignIn

	family *family // of the tokens that it was changed for
	spent  bool
}

type refresh struct {
	family *family
	until  time.Time
	spent  bool
}

// device is a program that signs in with a code on another screen.
type device struct {
	grant

	user         string // the code that a person types
	until        time.Time
	done, denied bool
}

// store contains the state of the issuer. Secrets are map keys. An ended secret stays until its
// expiry, so that a second use is detected.
type store struct {
	mu       sync.Mutex
	pending  map[string]pendingSignIn
	codes    map[string]*code
	refresh  map[string]*refresh
	devices  map[string]*device
	revoked  map[string]time.Time // ids of access tokens, until when
	families []*family
}

// secret is 130 random bits.
func secret() string { return rand.Text() }

// open locks the store and deletes expired entries.
func (s *store) open(now time.Time) {
	s.mu.Lock()
	if s.pending == nil {
		s.pending, s.codes, s.refresh = map[string]pendingSignIn{}, map[string]*code{}, map[string]*refresh{}
		s.devices, s.revoked = map[string]*device{}, map[string]time.Time{}
	}
	maps.DeleteFunc(s.pending, func(_ string, a pendingSignIn) bool { return now.After(a.until) })
	maps.DeleteFunc(s.codes, func(_ string, c *code) bool { return now.After(c.until.Add(signInWithin)) })
	maps.DeleteFunc(s.refresh, func(_ string, r *refresh) bool { return now.After(r.until) })
	maps.DeleteFunc(s.devices, func(_ string, d *device) bool { return now.After(d.until.Add(deviceFor)) })
	maps.DeleteFunc(s.revoked, func(_ string, until time.Time) bool { return now.After(until) })
	s.families = slices.DeleteFunc(s.families, func(f *family) bool { return f.revoked || now.After(f.at.Add(refreshFor)) })
}

func (s *store) ask(now time.Time, a pendingSignIn) (id string) {
	s.open(now)
	defer s.mu.Unlock()
	a.until = now.Add(signInWithin)
	id = secret()
	s.pending[id] = a
	return id
}

func (s *store) waiting(now time.Time, id string) (pendingSignIn, bool) {
	s.open(now)
	defer s.mu.Unlock()
	a, ok := s.pending[id]
	return a, ok
}

// choose turns a pending sign-in into a code, once.
func (s *store) choose(now time.Time, id, subject string) (text string, a pendingSignIn, ok bool) {
	s.open(now)
	defer s.mu.Unlock()
	if a, ok = s.pending[id]; !ok {
		return "", a, false
	}
	delete(s.pending, id)
	a.subject, a.at, a.until = subject, now, now.Add(codeFor)
	text = secret()
	s.codes[text] = &code{pendingSignIn: a}
	return text, a, true
}

// spend invalidates a code before its bearer is checked: a wrong verifier must not be tried twice.
// A second use may be by a thief, or by the owner after a thief, so it also revokes the tokens of
// the first use.
func (s *store) spend(now time.Time, text string) (*code, bool) {
	s.open(now)
	defer s.mu.Unlock()
	c := s.codes[text]
	switch {
	case c == nil:
		return nil, false
	case c.spent:
		if c.family != nil {
			c.family.revoked = true
		}
		return nil, false
	}
	c.spent = true
	return c, !now.After(c.until)
}

// begin makes the first refresh token of a grant; from is the code it was for.
func (s *store) begin(now time.Time, g grant, from *code) (token string) {
	s.open(now)
	defer s.mu.Unlock()
	f := &family{grant: g}
	s.families = append(s.families, f)
	if from != nil {
		from.family = f
	}
	return s.next(now, f)
}

func (s *store) next(now time.Time, f *family) (token string) {
	token = secret()
	s.refresh[token] = &refresh{family: f, until: now.Add(refreshFor)}
	return token
}

// rotate replaces a refresh token. A replaced token that is used again was copied by an unknown
// party, so its whole family ends.
func (s *store) rotate(now time.Time, token, client string) (next string, g grant, ok bool) {
	s.open(now)
	defer s.mu.Unlock()
	r := s.refresh[token]
	switch {
	case r == nil || r.family.client != client || r.family.revoked:
		return "", grant{}, false
	case r.spent:
		r.family.revoked = true
		return "", grant{}, false
	}
	r.spent = true
	return s.next(now, r.family), r.family.grant, true
}

// revoke ends the family of a client's refresh token and reports whether the token was one.
func (s *store) revoke(now time.Time, token, client string) bool {
	s.open(now)
	defer s.mu.Unlock()
	r := s.refresh[token]
	if r == nil || r.family.client != client {
		return false
	}
	r.family.revoked = true
	return true
}

// leave ends all that a person has allowed a client.
func (s *store) leave(now time.Time, subject, client string) {
	s.open(now)
	defer s.mu.Unlock()
	for _, f := range s.families {
		if f.subject == subject && f.client == client {
			f.revoked = true
		}
	}
}

func (s *store) revokeAccess(now time.Time, id string, until time.Time) {
	s.open(now)
	defer s.mu.Unlock()
	s.revoked[id] = until
}

func (s *store) accessRevoked(now time.Time, id string) bool {
	s.open(now)
	defer s.mu.Unlock()
	return !s.revoked[id].IsZero()
}

func (s *store) addDevice(now time.Time, g grant, user string) (text string) {
	s.open(now)
	defer s.mu.Unlock()
	text = secret()
	s.devices[text] = &device{grant: g, user: user, until: now.Add(deviceFor)}
	return text
}

// device finds one that waits, by the code that a person typed.
func (s *store) device(now time.Time, user string) (d *device, found bool) {
	user = strings.ToUpper(strings.TrimSpace(user))
	for _, d := range s.devices {
		if d.user == user && !d.done && !d.denied && !now.After(d.until) {
			return d, true
		}
	}
	return nil, false
}

func (s *store) deviceWaits(now time.Time, user string) (client string, ok bool) {
	s.open(now)
	defer s.mu.Unlock()
	d, ok := s.device(now, user)
	if !ok {
		return "", false
	}
	return d.client, true
}

// answerDevice approves a device sign-in as a user. The double has no way to deny one.
func (s *store) answerDevice(now time.Time, user, subject string) bool {
	s.open(now)
	defer s.mu.Unlock()
	d, ok := s.device(now, user)
	if !ok {
		return false
	}
	d.subject, d.at, d.done, d.denied = subject, now, subject != "", subject == ""
	return true
}

// poll returns the progress of a device and deletes it after its sign-in.
func (s *store) poll(now time.Time, text, client string) (device, bool) {
	s.open(now)
	defer s.mu.Unlock()
	d := s.devices[text]
	if d == nil || d.client != client {
		return device{}, false
	}
	if d.done {
		delete(s.devices, text)
	}
	return *d, true
}
