// Package secretref resolves references to secrets. Desired objects contain only references,
// because the history of a repository stores every value for ever.
//
// A reference names a credential. The server's own configuration lists the credentials and the addresses
// that each may be sent to, because the author of a commit chooses both the reference and the address.
//
// Its errors repeat neither a secret nor an invalid reference: the author may have written the
// secret itself in its place.
package secretref

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// form is #SecretRef of cue/schema, which a test compares.
var form = regexp.MustCompile(`^credential:[A-Za-z0-9][-A-Za-z0-9_.]{0,127}$`)

// largest is more than any key or token.
const largest = 64 << 10

// Variables of the server that list its credentials.
const (
	listName = "GPUAAS_CREDENTIALS"
	dirName  = "GPUAAS_CREDENTIALS_DIR"
)

// Valid reports whether text is a reference.
func Valid(text string) bool { return form.MatchString(text) }

// Credentials are the secrets that desired objects may refer to. The nil value contains none.
type Credentials struct {
	root  *os.Root
	hosts map[string][]string
}

// CredentialsFromEnv reads the list of credentials from GPUAAS_CREDENTIALS: a list of
// NAME=ADDRESS[,ADDRESS]. The secret of NAME is the file NAME in GPUAAS_CREDENTIALS_DIR, by
// default systemd's CREDENTIALS_DIRECTORY. It returns nil if the list is empty. The folder must not
// be, contain or be below the state directory, which contains the server's own keys.
func CredentialsFromEnv(getenv func(string) string, stateDir string) (*Credentials, error) {
	list := strings.Fields(getenv(listName))
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // nil contains no credential
	}
	c := &Credentials{hosts: map[string][]string{}}
	for _, item := range list {
		name, hosts, _ := strings.Cut(item, "=")
		if !Valid("credential:"+name) || c.hosts[name] != nil || hosts == "" || slices.Contains(strings.Split(hosts, ","), "") {
			return nil, errs.Invalid(listName, "%q is not one NAME=ADDRESS[,ADDRESS]", name).Try("fleet-token=api.github.com,github.com")
		}
		c.hosts[name] = strings.Split(strings.ToLower(hosts), ",")
	}
	dir := getenv(dirName)
	if dir == "" {
		dir = getenv("CREDENTIALS_DIRECTORY")
	}
	if dir == "" {
		return nil, errs.Invalid(dirName, "is not set, and %s is", listName).Try("name the folder of the credentials, or use LoadCredential= in the service's unit")
	}
	if err := checkDir(dir, stateDir); err != nil {
		return nil, err
	}
	var err error
	if c.root, err = os.OpenRoot(dir); err != nil {
		return nil, errs.Invalid(dirName, "the folder of the credentials cannot be opened").Because(err)
	}
	return c, nil
}

// checkDir rejects a folder in which a name could lead to the server's own keys or to the kernel.
func checkDir(dir, stateDir string) error {
	at, err := resolved(dir)
	if err != nil {
		return errs.Invalid(dirName, "the folder of the credentials cannot be read").Because(err)
	}
	state, err := resolved(stateDir)
	if err != nil {
		state = filepath.Clean(stateDir) // it is created later
	}
	if below(at, state) || below(state, at) {
		return errs.Invalid(dirName, "the folder of the credentials overlaps the state directory %s", stateDir).Try("use a folder that contains credentials only")
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if below(at, kernel) && !below(at, "/dev/shm") {
			return errs.Invalid(dirName, "the folder of the credentials is below %s", kernel).Try("use a folder that contains credentials only")
		}
	}
	return nil
}

func resolved(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(at)
}

func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// Resolve reads the secret that ref names, without the end of line that editors add. The address is
// the URL that the secret is sent to, or that its sender has. Its host name must be listed for the
// credential.
func (c *Credentials) Resolve(ctx context.Context, ref, address string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !Valid(ref) {
		return nil, errs.New(errs.SpecInvalid, "the value is not a reference to a credential").Try("credential:NAME, with NAME as in the server's %s", listName)
	}
	name := strings.TrimPrefix(ref, "credential:")
	if c == nil || c.hosts[name] == nil {
		return nil, errs.New(errs.NotFound, "this server lists no credential for %s", ref).Try("an administrator adds %s=ADDRESS to %s", name, listName)
	}
	host, err := hostOf(address)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.hosts[name], host) {
		return nil, errs.New(errs.Forbidden, "%s must not be sent to %s", ref, host).Try("an administrator adds the address to %s in %s", name, listName)
	}
	return c.read(ref, name)
}

// All returns the secrets by name, to search for them in what leaves this process. It omits those that cannot be read.
func (c *Credentials) All() map[string][]byte {
	all := map[string][]byte{}
	if c == nil {
		return all
	}
	for name := range c.hosts {
		if secret, err := c.read("credential:"+name, name); err == nil {
			all[name] = secret
		}
	}
	return all
}

// ports are the ports that an address omits.
var ports = map[string]string{"https": "443", "http": "80", "ssh": "22"}

// hostOf returns the host name of an address, with its port if it is not the default of the scheme.
// Another port may be another owner's service.
func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", errs.New(errs.SpecInvalid, "the address has no host name that a credential could be for").Try("remove the reference")
	}
	if u.Port() == "" || u.Port() == ports[u.Scheme] {
		return strings.ToLower(u.Hostname()), nil
	}
	return strings.ToLower(u.Host), nil
}

// read does not wait for a pipe, and follows no link that leaves the folder.
func (c *Credentials) read(ref, name string) ([]byte, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, absent(ref, err)
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errs.New(errs.SpecInvalid, "%s is not a regular file", ref)
	}
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	switch {
	case err != nil:
		return nil, absent(ref, err)
	case len(text) > largest:
		return nil, errs.New(errs.SpecInvalid, "%s is longer than %d bytes", ref, largest)
	}
	if text = []byte(strings.TrimRight(string(text), "\r\n")); len(text) == 0 {
		return nil, absent(ref, nil)
	}
	return text, nil
}

func absent(ref string, cause error) *errs.Error {
	return errs.New(errs.NotFound, "the file of %s does not exist or is empty on this server", ref).Because(cause)
}
