package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"golang.org/x/mod/semver"
)

// ReleaseVersion is the version of the encoding of a Release.
const ReleaseVersion = 1

// Release describes one build of the agent and is signed by a release key, which no server has: permission
// to send tasks does not include the replacement of the program that runs them. The canonical bytes differ
// from those of the other signed messages, so that no signature is valid for another form.
type Release struct {
	V        int    `json:"v"`
	Kid      string `json:"kid"` // which release key
	Version  string `json:"version"`
	Platform string `json:"platform"` // linux/amd64
	Digest   string `json:"digest"`   // SHA-256 of the binary, hex
	Size     int64  `json:"size"`
	// Minimum is the oldest version that a node with this build may install later. Empty leaves the
	// minimum of the node unchanged.
	Minimum   string    `json:"minimum"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"` // no node becomes it afterwards; one that is it stays
}

// MaxBinary limits a build. It is far above the size of the agent.
const MaxBinary = 256 << 20

var (
	releaseName     = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
	releasePlatform = regexp.MustCompile(`^[a-z0-9]{1,16}/[a-z0-9]{1,16}$`)
	releaseDigest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Canonical returns the signed bytes of a release. A release has only one such form.
func (r Release) Canonical() ([]byte, error) {
	r.IssuedAt, r.ExpiresAt = r.IssuedAt.UTC().Truncate(time.Second), r.ExpiresAt.UTC().Truncate(time.Second)
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding release: %w", err)
	}
	return body, nil
}

// OpenRelease verifies the signature over the received bytes with keys and returns the release.
func OpenRelease(metadata, signature []byte, keys map[string][]byte) (Release, error) {
	var r Release
	if len(metadata) > MaxBody {
		return r, Reject(ParamsInvalid, "release metadata of %d bytes, at most %d", len(metadata), MaxBody)
	}
	kid, err := signer(Signed{Body: metadata, Signature: signature}, keys)
	switch {
	case CodeOf(err) == KeyUnknown:
		return r, Reject(KeyUnknown, "no release key is known")
	case err != nil:
		return r, Reject(SignatureInvalid, "no known release key has signed this release")
	}
	if err := Strict(bytes.NewReader(metadata), &r); err != nil {
		return Release{}, Reject(ParamsInvalid, "not a release: %v", err)
	}
	if again, err := r.Canonical(); err != nil || !bytes.Equal(again, metadata) {
		return Release{}, Reject(ParamsInvalid, "the release is not in its canonical form")
	}
	if r.Kid != kid {
		return Release{}, Reject(ParamsInvalid, "the release names key %q and is signed by %q", r.Kid, kid)
	}
	return r, r.Sound()
}

// Sound checks the rules for every release.
func (r Release) Sound() error {
	switch {
	case r.V != ReleaseVersion:
		return Reject(VersionUnsupported, "release of form %d, this build knows %d", r.V, ReleaseVersion)
	case !releaseName.MatchString(r.Version):
		return Reject(ParamsInvalid, "%q is no version of a release", r.Version)
	case !releasePlatform.MatchString(r.Platform):
		return Reject(ParamsInvalid, "%q is no platform, such as linux/amd64", r.Platform)
	case !releaseDigest.MatchString(r.Digest):
		return Reject(ParamsInvalid, "the digest is no SHA-256 in hex")
	case r.Size <= 0 || r.Size > MaxBinary:
		return Reject(ParamsInvalid, "a build of %d bytes, at most %d", r.Size, MaxBinary)
	case !r.IssuedAt.Before(r.ExpiresAt):
		return Reject(ParamsInvalid, "the release expires at or before its beginning")
	case !AtLeast(r.Version, r.Minimum):
		return Reject(ParamsInvalid, "version %s is below its own minimum %s", r.Version, r.Minimum)
	}
	return nil
}

// Ordered reports whether a version can be compared: SemVer with a leading v. A version that
// cannot, such as that of a build between two tags, satisfies no minimum.
func Ordered(version string) bool { return semver.IsValid(version) }

// AtLeast reports whether a version is not below a minimum. Every version satisfies an empty
// minimum.
func AtLeast(version, minimum string) bool {
	return minimum == "" || Ordered(version) && Ordered(minimum) && semver.Compare(version, minimum) >= 0
}

// Higher returns the higher of two minima.
func Higher(a, b string) string {
	if a == "" || Ordered(b) && Ordered(a) && semver.Compare(b, a) > 0 {
		return b
	}
	return a
}

// The reasons why a node does not install a build, or no longer runs the requested one.
const (
	DigestMismatch    RejectReason = "digest_mismatch"
	DowngradeRejected RejectReason = "downgrade_rejected"
	RolledBack        RejectReason = "rolled_back"
)
