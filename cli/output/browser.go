package output

import (
	"net/url"
	"os/exec"
	"runtime"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Visit opens a page in the browser if possible, and prints its address otherwise.
func (a *Console) Visit(at string, open func(string) error, words string) {
	if open != nil && open(at) == nil {
		words = "The browser opens. If it does not open, go to"
	}
	a.Notify("%s\n%s", words, at)
}

// Browser returns a function that opens a page in the local browser, or nil if there is no display.
func (a *Console) Browser() func(string) error {
	show := a.Viewer()
	if show == nil {
		return nil
	}
	return func(at string) error {
		if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return errs.New(errs.ProviderFailed, "%q is no page", at) // a server sent it: it is not run as a command
		}
		return show(at)
	}
}

// Viewer opens whatever a browser opens, files too: nothing that came from
// elsewhere.
func (a *Console) Viewer() func(string) error {
	name := a.Env("BROWSER")
	switch {
	case name != "":
	case runtime.GOOS == "darwin":
		name = "open"
	case a.Env("DISPLAY") != "" || a.Env("WAYLAND_DISPLAY") != "":
		name = "xdg-open"
	default:
		return nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	return func(at string) error {
		// It may outlive this command, as a browser does.
		cmd := exec.Command(path, at) //nolint:gosec,noctx // the person's own browser
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { _ = cmd.Wait() }()
		return nil
	}
}
