package signature

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshSignature is the blob of PROTOCOL.sshsig, behind its magic.
type sshSignature struct {
	Version   uint32
	Key       []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshSigned is the structure that the SSH key signs. It wraps the hash of the message.
type sshSigned struct {
	Namespace, Reserved, Hash string
	Sum                       []byte
}

const sshMagic = "SSHSIG"

// sshFormats leave out what is over SHA-1: ssh-rsa and ssh-dss.
var sshFormats = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
}

// namespace of commits. A signature over a file or a login is none over a commit.
const namespace = "git"

func (v Verify) sshSigner(c SignedCommit, now time.Time) (string, error) {
	block, rest := pem.Decode([]byte(c.Signature))
	if block == nil || block.Type != "SSH SIGNATURE" || len(bytes.TrimSpace(rest)) > 0 {
		return "", errors.New("it cannot be read")
	}
	blob, ok := bytes.CutPrefix(block.Bytes, []byte(sshMagic))
	var sig sshSignature
	if err := ssh.Unmarshal(blob, &sig); !ok || err != nil || sig.Version != 1 {
		return "", errors.New("it cannot be read")
	}
	if sig.Namespace != namespace {
		return "", fmt.Errorf("it was made for %q, not for git", sig.Namespace)
	}
	if err := sig.verify(c.Signed); err != nil {
		return "", err
	}
	return v.principal(sig.Key, c.CommitterEmail, now)
}

func (sig sshSignature) verify(message []byte) error {
	key, err := ssh.ParsePublicKey(sig.Key)
	if err != nil {
		return errors.New("its key cannot be read")
	}
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < 2048 {
			return fmt.Errorf("its key has %d bits", r.N.BitLen())
		}
	}
	sum512, sum256 := sha512.Sum512(message), sha256.Sum256(message)
	sum, ok := map[string][]byte{"sha256": sum256[:], "sha512": sum512[:]}[sig.Hash]
	if !ok {
		return fmt.Errorf("it is over the sum %q", sig.Hash)
	}
	var inner ssh.Signature
	if err := ssh.Unmarshal(sig.Signature, &inner); err != nil {
		return errors.New("it cannot be read")
	}
	if !slices.Contains(sshFormats, inner.Format) {
		return fmt.Errorf("it is made with %s", inner.Format)
	}
	signed := append([]byte(sshMagic), ssh.Marshal(sshSigned{sig.Namespace, sig.Reserved, sig.Hash, sum})...)
	if err := key.Verify(signed, &inner); err != nil {
		return errors.New("it is not about this commit")
	}
	return nil
}

// principal searches for a line that permits the key to sign for who.
func (v Verify) principal(key []byte, who string, now time.Time) (string, error) {
	why := errors.New("its key is not among those that count")
	for _, line := range v.SSH {
		a, err := parseSigner(line)
		switch {
		case err != nil || !bytes.Equal(a.key.Marshal(), key):
			continue
		case len(a.namespaces) > 0 && !slices.Contains(a.namespaces, namespace):
			why = errors.New("its key counts, but not for git")
		case !a.after.IsZero() && now.Add(skew).Before(a.after), !a.before.IsZero() && !now.Before(a.before):
			why = errors.New("its key counts at other times")
		case !matches(a.principals, who):
			why = fmt.Errorf("its key counts, but not for the committer %s", who)
		default:
			return who, nil
		}
	}
	return "", why
}

// allowedSigner is a line of an allowed_signers file, see ssh-keygen(1).
type allowedSigner struct {
	principals    []string
	namespaces    []string
	after, before time.Time
	key           ssh.PublicKey
}

func parseSigner(line string) (a allowedSigner, err error) {
	principals, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
	if !ok || strings.HasPrefix(principals, "#") {
		return a, errors.New("it has no key")
	}
	a.principals = strings.Split(strings.Trim(principals, `"`), ",")
	key, _, options, more, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil || len(bytes.TrimSpace(more)) > 0 {
		return a, errors.New("its key cannot be read")
	}
	a.key = key
	for _, option := range options {
		word, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(word) {
		case "namespaces":
			a.namespaces = strings.Split(value, ",")
		case "valid-after":
			a.after, err = sshTime(value)
		case "valid-before":
			a.before, err = sshTime(value)
		default:
			err = fmt.Errorf("the option %s is not known here", word)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// sshTime parses YYYYMMDD[HHMM[SS]][Z]. Without the Z it uses UTC as well, because the local time
// zone depends on the server.
func sshTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) == len(digits) {
			return time.Parse(layout, digits)
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", text)
}

// matches compares with patterns as ssh does: any may match, none that begins with
// an exclamation mark.
func matches(patterns []string, who string) (yes bool) {
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		hit, err := path.Match(strings.ToLower(escaped.Replace(p)), strings.ToLower(strings.ReplaceAll(who, "/", "|")))
		if err != nil || !hit {
			continue
		}
		if not {
			return false
		}
		yes = true
	}
	return yes && who != ""
}

// escaped quotes the characters that only path.Match interprets.
var escaped = strings.NewReplacer("[", `\[`, `\`, `\\`, "/", "|")
