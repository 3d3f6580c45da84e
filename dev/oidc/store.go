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
	askedFor   = 10 * time.Minute // a person may read before choosing
	codeFor    = time.Minute
	deviceFor  = 10 * time.Minute
	refreshFor = 30 * 24 * time.Hour
)

// grant is what a person has allowed a client.
type grant struct {
	client, subject string
	scopes          []string
	nonce           string
	at              time.Time
}

// family is all refresh tokens that come from one sign-in.
type family struct {
	grant

	revoked bool
}

// asked is a sign-in that waits for somebody to choose who they are.
type asked struct {
	grant

	redirect, state, challenge string
	until                      time.Time
}

// code is what an asked sign-in has become.
type code struct {
	asked

	family *family // of the tokens that it was changed for
	spent  bool
}

type refresh struct {
	family *family
	until  time.Time
	spent  bool
}

// device is a program that asks by code on another screen.
type device struct {
	grant

	user         string // the code that a person types
	until        time.Time
	done, denied bool
}

// store is everything that the issuer remembers. Secrets are keys of its maps:
// what was ended stays until its time is over, so that using it again is noticed.
type store struct {
	mu       sync.Mutex
	asked    map[string]asked
	codes    map[string]*code
	refresh  map[string]*refresh
	devices  map[string]*device
	revoked  map[string]time.Time // ids of access tokens, until when
	families []*family
}

// secret is 130 random bits.
func secret() string { return rand.Text() }

// open locks the store and forgets what is over.
func (s *store) open(now time.Time) {
	s.mu.Lock()
	if s.asked == nil {
		s.asked, s.codes, s.refresh = map[string]asked{}, map[string]*code{}, map[string]*refresh{}
		s.devices, s.revoked = map[string]*device{}, map[string]time.Time{}
	}
	maps.DeleteFunc(s.asked, func(_ string, a asked) bool { return now.After(a.until) })
	maps.DeleteFunc(s.codes, func(_ string, c *code) bool { return now.After(c.until.Add(askedFor)) })
	maps.DeleteFunc(s.refresh, func(_ string, r *refresh) bool { return now.After(r.until) })
	maps.DeleteFunc(s.devices, func(_ string, d *device) bool { return now.After(d.until.Add(deviceFor)) })
	maps.DeleteFunc(s.revoked, func(_ string, until time.Time) bool { return now.After(until) })
	s.families = slices.DeleteFunc(s.families, func(f *family) bool { return f.revoked || now.After(f.at.Add(refreshFor)) })
}

func (s *store) ask(now time.Time, a asked) (id string) {
	s.open(now)
	defer s.mu.Unlock()
	a.until = now.Add(askedFor)
	id = secret()
	s.asked[id] = a
	return id
}

func (s *store) waiting(now time.Time, id string) (asked, bool) {
	s.open(now)
	defer s.mu.Unlock()
	a, ok := s.asked[id]
	return a, ok
}

// choose turns an asked sign-in into a code, once.
func (s *store) choose(now time.Time, id, subject string) (text string, a asked, ok bool) {
	s.open(now)
	defer s.mu.Unlock()
	if a, ok = s.asked[id]; !ok {
		return "", a, false
	}
	delete(s.asked, id)
	a.subject, a.at, a.until = subject, now, now.Add(codeFor)
	text = secret()
	s.codes[text] = &code{asked: a}
	return text, a, true
}

// spend burns a code before anyone looks whether its bearer may have it: a wrong
// verifier must not be tried twice. A second use may be a thief's or the owner's
// after a thief's, so it also ends what the first one was given.
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

// rotate changes a refresh token for the next one. One that comes back was
// copied, by whom cannot be known: its whole family ends.
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

// revoke ends the family of a client's refresh token, and says whether it was one.
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

// answerDevice lets the device in as a person; nobody denies it.
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

// poll says how far a device has come, and forgets it once it is let in.
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
