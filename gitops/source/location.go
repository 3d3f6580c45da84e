package source

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	sourceremote "github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/gitops/source/text"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// isURL distinguishes an address from a path: an address has a scheme, or a server before a colon.
func isURL(location string) bool {
	if strings.Contains(location, "://") || strings.Contains(location, "::") {
		return true
	}
	host, _, ok := strings.Cut(location, ":")
	return ok && len(host) > 1 && !strings.ContainsAny(host, `/\.`) || ok && strings.Contains(host, "@")
}

// host matches the server of a repository: a name or an address. A program could read another text
// for an option, and a resolver for something else.
var host = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// parse parses the location of a repository. It rejects transports that start programs or are not
// authenticated, and spellings that two parsers could understand differently.
func parse(location string) (*url.URL, error) {
	no := func(why string, args ...any) (*url.URL, error) { return nil, errs.Invalid("repository", why, args...) }
	if strings.Contains(location, "::") && !strings.Contains(location, "://") || strings.HasPrefix(location, "-") {
		return no("%q names a program, not a repository", location)
	}
	if strings.ContainsFunc(location, text.Hidden) || strings.ContainsAny(location, " \\") || len(location) > 2048 {
		return no("the address has characters that no address has")
	}
	if !strings.Contains(location, "://") {
		who, path, _ := strings.Cut(location, ":") // user@host:path, over ssh
		location = "ssh://" + who + sourceremote.Relative + path
		if strings.HasPrefix(path, "-") {
			return no("%q could be read as an option", path)
		}
	}
	u, err := url.Parse(location)
	if err != nil {
		return no("the address cannot be read")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "ssh" && u.Scheme != "file":
		return nil, errs.Invalid("repository", "the transport %q is not allowed", u.Scheme).Try("use https or ssh")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(location, "#") || u.Opaque != "":
		return no("the address of a repository has no query and no fragment")
	case u.Scheme == "file" && (u.Host != "" || u.User != nil || !filepath.IsAbs(u.Path)):
		return no("a file address is file:// and an absolute path")
	case u.Scheme == "file":
		return u, nil
	case strings.HasPrefix(u.Hostname(), "-"):
		return no("%q could be read as an option", u.Hostname())
	case !host.MatchString(u.Hostname()) && !strings.HasPrefix(u.Host, "["):
		return no("%q is no server name", u.Hostname())
	case strings.HasPrefix(u.User.Username(), "-"):
		return no("%q could be read as an option", u.User.Username())
	case strings.Trim(u.Path, "/") == "":
		return no("the address names a server, and no repository on it")
	}
	if _, secret := u.User.Password(); secret || u.Scheme == "https" && u.User != nil {
		return nil, errs.Invalid("repository", "the address contains a user or a password").Try("name the token's credential in auth.tokenRef")
	}
	return u, nil
}

// name matches a ref, a hash, or HEAD. Git's revision syntax is larger, and parts of it search the
// whole history; `~` and `^` are for users of the CLI.
var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@#=,%-]*([~^][0-9]{0,4}){0,4}$`)

func checkRef(ref string) error {
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") {
			return errs.Invalid("ref", "%q is no ref", ref)
		}
	}
	if len(ref) > 255 || !name.MatchString(ref) || strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return errs.Invalid("ref", "%q is no ref", ref)
	}
	return nil
}

// redacted leaves out what may be a password.
func redacted(remote string) string {
	u, err := url.Parse(remote)
	if err != nil {
		return "given"
	}
	return u.Redacted()
}
