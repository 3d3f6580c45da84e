package source

import (
	"bytes"
	"crypto"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/gpuaas/gpuaas/desired"
	sourcesignature "github.com/gpuaas/gpuaas/gitops/source/signature"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// noon is the time of the check in these tests. The commits are one hour older.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const who = "t@example.com"

// sshKey makes a key with the real ssh-keygen.
func sshKey(t *testing.T, kind ...string) (file, public string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", append([]string{"-q", "-N", "", "-C", "", "-f", file, "-t"}, kind...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(text))
}

// signed commits a file with the real git, signed by an ssh key.
func (b bundle) signed(key string) {
	b.t.Helper()
	b.write("fleet/a.cue", "a")
	b.git("add", "-A")
	b.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+key, "commit", "-q", "-S", "-m", "x")
}

// rewrite makes main a commit of other bytes.
func (b bundle) rewrite(change func(string) string) {
	b.t.Helper()
	raw := change(b.git("cat-file", "commit", "HEAD") + "\n")
	hash := b.gitIn(raw, "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
	b.git("update-ref", "refs/heads/main", hash)
}

// withSignature adds a signature of the commit to it.
func withSignature(raw, signature string) string {
	head, message, _ := strings.Cut(raw, "\n\n")
	return head + "\ngpgsig " + strings.ReplaceAll(strings.TrimSpace(signature), "\n", "\n ") + "\n\n" + message
}

func (b bundle) verified(v sourcesignature.Verify) Tree {
	b.t.Helper()
	s := b.open("main")
	s.Verify, s.Clock = v, clock.At(func() time.Time { return noon })
	t := snapshot(b.t, s, "")
	if len(t.Findings) > 0 && (s.reads != (Reads{}) || t.Files != nil || t.Meta.Signer != "") {
		b.t.Errorf("a rejected commit was read: %+v %+v", s.reads, t)
	}
	return t
}

func TestINV18SSHSignatures(t *testing.T) {
	t.Parallel()
	file, public := sshKey(t, "ed25519")
	_, other := sshKey(t, "ed25519")
	rsaFile, rsaPublic := sshKey(t, "rsa", "-b", "2048")
	ecFile, ecPublic := sshKey(t, "ecdsa")
	weakFile, weakPublic := sshKey(t, "rsa", "-b", "1024")
	for name, c := range map[string]struct {
		key    string
		signer string
		change func(string) string
		want   string // part of the finding; empty: accepted
	}{
		"accepted":                 {key: file, signer: who + " " + public},
		"accepted, rsa":            {key: rsaFile, signer: who + " " + rsaPublic},
		"accepted, ecdsa":          {key: ecFile, signer: who + " " + ecPublic},
		"accepted by a pattern":    {key: file, signer: "*@example.com " + public},
		"accepted for git":         {key: file, signer: who + ` namespaces="file,git" ` + public},
		"accepted within its time": {key: file, signer: who + ` valid-after="20260101",valid-before="20270101Z" ` + public},
		"unsigned":                 {signer: who + " " + public, want: "not signed"},
		"unknown key":              {key: file, signer: who + " " + other, want: "not among those"},
		"key without an owner":     {key: file, want: "not among those"},
		"another principal's":      {key: file, signer: "other@example.com " + public, want: "not for the committer"},
		"excluded principal's":     {key: file, signer: "*@example.com,!" + who + " " + public, want: "not for the committer"},
		"lookalike principal's":    {key: file, signer: "t@example.com.evil.org " + public, want: "not for the committer"},
		"expired":                  {key: file, signer: who + ` valid-before="20260601115959Z" ` + public, want: "other times"},
		"not valid yet":            {key: file, signer: who + ` valid-after="20260601123000Z" ` + public, want: "other times"},
		"only for files":           {key: file, signer: who + ` namespaces="file" ` + public, want: "not for git"},
		"weak":                     {key: weakFile, signer: who + " " + weakPublic, want: "1024 bits"},
		"another tree":             {key: file, signer: who + " " + public, want: "not about this commit", change: swapTree},
		"another message":          {key: file, signer: who + " " + public, want: "not about this commit", change: func(s string) string { return s + "more\n" }},
		"another parent":           {key: file, signer: who + " " + public, want: "not about this commit", change: addParent},
		"another committer":        {key: file, signer: "*@example.com " + public, want: "not about this commit", change: func(s string) string { return strings.ReplaceAll(s, who, "boss@example.com") }},
		"an unknown header":        {key: file, signer: who + " " + public, want: "not about this commit", change: func(s string) string { return strings.Replace(s, "\ngpgsig", "\nextra x\ngpgsig", 1) }},
		"two signatures":           {key: file, signer: who + " " + public, want: "two signatures", change: twice},
		"armour of something else": {key: file, signer: who + " " + public, want: "neither", change: func(s string) string { return strings.ReplaceAll(s, "SSH SIGNATURE", "SIGNED MESSAGE") }},
		"text behind the signature": {key: file, signer: who + " " + public, want: "cannot be read", change: func(s string) string {
			return strings.Replace(s, "-----END SSH SIGNATURE-----", "-----END SSH SIGNATURE-----\n trailer", 1)
		}},
		"cut": {key: file, signer: who + " " + public, want: "cannot be read", change: cutSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if c.key != "" {
				b.signed(c.key)
			} else {
				b.write("fleet/a.cue", "a")
				b.commit()
			}
			if c.change != nil {
				b.rewrite(c.change)
			}
			v := sourcesignature.Verify{Required: true}
			if c.signer != "" {
				v.SSH = []string{"# comment", "stranger@example.com " + other, c.signer}[1:]
			}
			tree := b.verified(v)
			switch {
			case c.want == "" && (len(tree.Findings) > 0 || tree.Meta.Signer != who || len(tree.Files) != 1):
				t.Errorf("rejected: %+v", tree)
			case c.want != "" && (len(tree.Findings) != 1 || !strings.Contains(tree.Findings[0].Message, c.want)):
				t.Errorf("want %q: %+v", c.want, tree)
			}
		})
	}
}

func swapTree(s string) string {
	_, rest, _ := strings.Cut(s, "\n")
	return "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + rest
}

func addParent(s string) string {
	tree, rest, _ := strings.Cut(s, "\n")
	return tree + "\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + rest
}

func twice(s string) string {
	at, end := strings.Index(s, "gpgsig"), strings.Index(s, "\n\n")
	return s[:end] + "\n" + s[at:end] + s[end:]
}

func cutSignature(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "gpgsig") {
			return strings.Join(append(lines[:i+2:i+2], lines[i+3:]...), "\n")
		}
	}
	return s
}

// A signature over a file, by the right key, is none over a commit.
func TestINV18OtherNamespace(t *testing.T) {
	t.Parallel()
	file, public := sshKey(t, "ed25519")
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	for namespace, want := range map[string]int{"git": 0, "file": 1} {
		raw := b.git("cat-file", "commit", "HEAD") + "\n"
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", file)
		cmd.Stdin = strings.NewReader(raw)
		signature, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		before := b.git("rev-parse", "HEAD")
		b.rewrite(func(s string) string { return withSignature(s, string(signature)) })
		if tree := b.verified(sourcesignature.Verify{Required: true, SSH: []string{who + " " + public}}); len(tree.Findings) != want {
			t.Errorf("%s: %+v", namespace, tree.Findings)
		}
		b.git("update-ref", "refs/heads/main", before)
	}
}

// pgpKey creates a key with the given creation and expiry times.
func pgpKey(t *testing.T, email string, born time.Time, lives time.Duration) (*openpgp.Entity, []byte) {
	t.Helper()
	e, err := openpgp.NewEntity("t", "", email, &packet.Config{
		Time: func() time.Time { return born }, Algorithm: packet.PubKeyAlgoEdDSA, KeyLifetimeSecs: uint32(lives.Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, armoured(t, e)
}

func armoured(t *testing.T, e *openpgp.Entity) []byte {
	t.Helper()
	var to bytes.Buffer
	w, err := armor.Encode(&to, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Serialize(w); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return to.Bytes()
}

func (b bundle) pgpSigned(e *openpgp.Entity, at time.Time, hash crypto.Hash, text bool) {
	b.t.Helper()
	b.rewrite(func(raw string) string {
		var to bytes.Buffer
		sign := openpgp.ArmoredDetachSign
		if text {
			sign = openpgp.ArmoredDetachSignText
		}
		if err := sign(&to, e, strings.NewReader(raw), &packet.Config{Time: func() time.Time { return at }, DefaultHash: hash}); err != nil {
			b.t.Fatal(err)
		}
		return withSignature(raw, to.String())
	})
}

func TestINV18OpenPGPSignatures(t *testing.T) {
	t.Parallel()
	hour, year := time.Hour, 365*24*time.Hour
	for name, c := range map[string]struct {
		email   string
		born    time.Time
		lives   time.Duration
		signed  time.Time
		hash    crypto.Hash
		text    bool
		others  bool // another key is the one that counts
		revoked bool
		change  func(string) string
		want    string
	}{
		"accepted":          {},
		"accepted, SHA-512": {hash: crypto.SHA512},
		"signer's clock":    {signed: noon.Add(time.Minute)},
		"expired since":     {born: noon.Add(-2 * year), lives: year, signed: noon.Add(-2*year + hour), want: "expired"},
		"not born yet":      {born: noon.Add(hour), signed: noon.Add(hour), want: "expired"},
		"signed tomorrow":   {signed: noon.Add(24 * hour), want: "expired"},
		"revoked":           {revoked: true, want: "revoked"},
		"unknown key":       {others: true, want: "unknown entity"},
		"another committer": {email: "other@example.com", want: "not that of the committer"},
		"text, not bytes":   {text: true, want: "type 1"},
		"another tree":      {change: swapTree, want: "invalid signature"},
		"another message":   {change: func(s string) string { return s + "more\n" }, want: "invalid signature"},
		"two signatures":    {change: twice, want: "two signatures"},
		"cut":               {change: cutSignature, want: "MSB"},
		"nothing in armour": {change: func(s string) string { return emptyArmour(s) }, want: "count"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.email == "" {
				c.email = who
			}
			if c.born.IsZero() {
				c.born = noon.Add(-year)
			}
			if c.signed.IsZero() {
				c.signed = noon.Add(-hour)
			}
			if c.hash == 0 {
				c.hash = crypto.SHA256
			}
			e, public := pgpKey(t, c.email, c.born, c.lives)
			b := setup(t)
			b.write("fleet/a.cue", "a")
			b.commit()
			b.pgpSigned(e, c.signed, c.hash, c.text)
			if c.revoked {
				if err := e.RevokeKey(packet.KeyCompromised, "", &packet.Config{Time: func() time.Time { return noon.Add(-hour) }}); err != nil {
					t.Fatal(err)
				}
				public = armoured(t, e)
			}
			if c.change != nil {
				b.rewrite(c.change)
			}
			if c.others {
				_, public = pgpKey(t, who, c.born, 0)
			}
			tree := b.verified(sourcesignature.Verify{Required: true, OpenPGP: [][]byte{public}})
			switch {
			case c.want == "" && (len(tree.Findings) > 0 || tree.Meta.Signer != who):
				t.Errorf("rejected: %+v", tree.Findings)
			case c.want != "" && (len(tree.Findings) != 1 || !strings.Contains(tree.Findings[0].Message, c.want)):
				t.Errorf("want %q: %+v", c.want, tree.Findings)
			}
		})
	}
}

func emptyArmour(s string) string {
	head, message, _ := strings.Cut(s[:strings.Index(s, "gpgsig")]+"\n"+s[strings.Index(s, "\n\n"):], "\n\n")
	return withSignature(strings.TrimRight(head, "\n")+"\n\n"+message, sourcesignature.PGPArmour+"\n\n-----END PGP SIGNATURE-----")
}

// What gpg itself signs is accepted.
func TestINV18RealGPG(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("gpg is not installed")
	}
	home, err := os.MkdirTemp("", "gpg") //nolint:usetesting // its sockets bear no long path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	gpg := func(args ...string) []byte {
		cmd := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--passphrase", ""}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("gpg %v: %v", args, err)
		}
		return out
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	gpg("--quick-generate-key", fmt.Sprintf("t <%s>", who), "ed25519", "sign", "never")
	program := filepath.Join(home, "sign")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec gpg --homedir "+home+" --batch --passphrase '' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.git("add", "-A")
	b.git("-c", "gpg.program="+program, "-c", "user.signingkey="+who, "commit", "-q", "-S", "-m", "x")
	s := b.open("main")
	s.Verify = sourcesignature.Verify{Required: true, OpenPGP: [][]byte{gpg("--armor", "--export", who)}}
	if tree := snapshot(t, s, ""); len(tree.Findings) > 0 || tree.Meta.Signer != who {
		t.Errorf("rejected: %+v", tree.Findings)
	}
}

// Where signatures are optional, an invalid one is rejected as well.
func TestINV18WrongIsWorseThanNone(t *testing.T) {
	t.Parallel()
	file, public := sshKey(t, "ed25519")
	b := setup(t)
	b.signed(file)
	v := sourcesignature.Verify{SSH: []string{who + " " + public}}
	if tree := b.verified(v); len(tree.Findings) > 0 {
		t.Errorf("signed: %v", tree.Findings)
	}
	b.rewrite(swapTree)
	if tree := b.verified(v); len(tree.Findings) != 1 || tree.Findings[0].Code != desired.CodeSignatureInvalid {
		t.Errorf("forged: %v", tree.Findings)
	}
	b.write("fleet/a.cue", "b")
	b.git("reset", "-q")
	b.commit()
	if tree := b.verified(v); len(tree.Findings) > 0 || tree.Meta.Signer != "" {
		t.Errorf("unsigned: %+v", tree)
	}
	v.Required = true
	if tree := b.verified(v); len(tree.Findings) != 1 || tree.Findings[0].Code != desired.CodeSignatureRequired {
		t.Errorf("unsigned, demanded: %v", tree.Findings)
	}
}

func TestVerifyIsReadWhenOpened(t *testing.T) {
	t.Parallel()
	_, public := sshKey(t, "ed25519")
	for name, c := range map[string]struct {
		verify sourcesignature.Verify
		ok     bool
	}{
		"fine":              {sourcesignature.Verify{Required: true, SSH: []string{who + " " + public}}, true},
		"nobody":            {sourcesignature.Verify{Required: true}, false},
		"no key":            {sourcesignature.Verify{SSH: []string{who}}, false},
		"bad key":           {sourcesignature.Verify{SSH: []string{who + " ssh-ed25519 AAAA"}}, false},
		"unknown option":    {sourcesignature.Verify{SSH: []string{who + " cert-authority " + public}}, false},
		"bad time":          {sourcesignature.Verify{SSH: []string{who + ` valid-before="tomorrow" ` + public}}, false},
		"no armour":         {sourcesignature.Verify{OpenPGP: [][]byte{[]byte("key")}}, false},
		"two keys in a row": {sourcesignature.Verify{SSH: []string{who + " " + public + "\n" + public}}, false},
	} {
		if _, err := OpenStore(t.TempDir(), Spec{Location: "https://example.com/r.git", Verify: c.verify}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
