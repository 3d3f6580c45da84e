package protocol

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MountCapability is the lowest capability of an agent that mounts stored objects. An older agent rejects tasks with
// mounts.
const MountCapability = 5

// MaxMounts limits the mounts of an allocation.
const MaxMounts = 8

// Storage requests the mounts of an allocation. It contains no secret: the agent requests the access keys from the node
// API (MountKeys).
type Storage struct {
	Endpoint string  `json:"endpoint"` // URL of the S3 endpoint, without a path
	Bucket   string  `json:"bucket"`   // UUID of the project
	Mounts   []Mount `json:"mounts"`   // sorted by At, without duplicates
}

// Mount shows a folder of the project's stored objects as a folder in the home of the allocation.
type Mount struct {
	Path     string `json:"path,omitempty"` // folder of stored objects; empty: all of the project
	At       string `json:"at"`             // folder in the home: one to four names, such as work/data
	ReadOnly bool   `json:"read_only,omitempty"`
}

// mountAt is the form of a mount point. Its names begin with a letter or digit, so that a mount covers no configuration of
// a login.
var mountAt = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._]{0,62}(/[A-Za-z0-9][-A-Za-z0-9._]{0,62}){0,3}$`)

// CheckMountAt reports whether at can be a mount point in a home.
func CheckMountAt(at string) bool { return mountAt.MatchString(at) }

// Nested returns two mount points of which one contains the other, or that are equal.
func Nested(points []string) (outer, inner string, found bool) {
	for i, a := range points {
		for j, b := range points {
			if i != j && (a == b || strings.HasPrefix(b, a+"/")) {
				return a, b, true
			}
		}
	}
	return "", "", false
}

// Address returns the domain name or the IP address of the endpoint, and its port.
func (s Storage) Address() (name string, port uint16) {
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return "", 0
	}
	if p, err := netip.ParseAddrPort("0.0.0.0:" + u.Port()); err == nil {
		return u.Hostname(), p.Port()
	}
	if u.Scheme == "http" {
		return u.Hostname(), 80 //nolint:mnd // the port of the scheme
	}
	return u.Hostname(), 443 //nolint:mnd // the port of the scheme
}

func (s *Storage) check() error {
	if s == nil {
		return nil
	}
	u, err := url.Parse(s.Endpoint)
	_, bucket := uuid.Parse(s.Bucket)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || s.Endpoint != u.Scheme+"://"+u.Host:
		return Reject(ParamsInvalid, "%q is no URL of an S3 endpoint", s.Endpoint)
	case bucket != nil:
		return Reject(ParamsInvalid, "bucket %q is not the UUID of a project", s.Bucket)
	case len(s.Mounts) == 0 || len(s.Mounts) > MaxMounts:
		return Reject(ParamsInvalid, "%d mounts: want 1 to %d", len(s.Mounts), MaxMounts)
	case !slices.IsSortedFunc(s.Mounts, func(a, b Mount) int { return strings.Compare(a.At, b.At) }):
		return Reject(ParamsInvalid, "the mounts are not sorted")
	}
	points := make([]string, len(s.Mounts))
	for i, m := range s.Mounts {
		points[i] = m.At
		if !mountAt.MatchString(m.At) {
			return Reject(ParamsInvalid, "%q is no mount point in a home", m.At)
		}
		if !cleanFolder(m.Path) {
			return Reject(ParamsInvalid, "%q is no folder of stored objects", m.Path)
		}
	}
	if outer, inner, found := Nested(points); found {
		return Reject(ParamsInvalid, "the mount point %q contains %q", outer, inner)
	}
	return nil
}

// maxFolder is the longest path of a stored object, in bytes.
const maxFolder = 1024

// cleanFolder accepts a relative path without empty and dotted segments and without control characters. product/storage
// has the whole rules for names; what counts here is that the agent can pass the path to a program.
func cleanFolder(text string) bool {
	return text == "" || len(text) <= maxFolder && utf8.ValidString(text) && path.Clean(text) == text && !strings.HasPrefix(text, "/") &&
		text != "." && text != ".." && !strings.HasPrefix(text, "../") && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\x7f' || r == '\\' })
}

// MountKeys is the response of POST /internal/v1/nodes/{id}/allocations/{allocation}/storage-key: one access key for each
// mount. Each request extends the keys until ExpiresAt; their ids and secrets stay the same for the life of the allocation.
type MountKeys struct {
	ExpiresAt time.Time  `json:"expires_at"`
	Keys      []MountKey `json:"keys"`
}

// MountKey opens the folder of one mount, and nothing else.
type MountKey struct {
	At          string `json:"at"`
	AccessKeyID string `json:"access_key_id"`
	Secret      string `json:"secret"`
}

// MountReport is the state of one mount.
type MountReport struct {
	At      string `json:"at"`
	Mounted bool   `json:"mounted"`
	Message string `json:"message,omitempty"` // why it is not mounted
}

// MountSupport describes whether a node can mount stored objects.
type MountSupport struct {
	Supported bool   `json:"supported"`
	Missing   string `json:"missing,omitempty"` // what the node lacks, such as "rclone 1.60 or newer"
}
