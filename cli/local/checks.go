package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

func examineMachine(ctx context.Context) []examination {
	pg := examination{Name: "postgresql", Status: statusOK}
	found, err := pgcluster.Find(ctx)
	if err != nil {
		// Who only talks to a distant installation needs none.
		pg.Status, pg.Message = statusWarn, "gpuaas up cannot run here: "+err.Error()
		if coded, ok := errors.AsType[*errs.Error](err); ok {
			pg.Try = coded.Suggestion
		}
	} else {
		pg.Message = fmt.Sprintf("server binaries of version %d in %s", found.Major, found.Dir)
	}
	git := examination{Name: "git", Status: statusOK}
	if path, err := exec.LookPath("git"); err != nil {
		git.Status, git.Message, git.Try = statusWarn, "git is not installed; it stores the fleet", "install the package git"
	} else {
		git.Message = path
	}
	return []examination{pg, git}
}

// examineProfile also reports whether there is an address for further checks.
func examineProfile(ctx context.Context, a *output.Console) (all []examination, usable bool) {
	e := examination{Name: "profile", Status: statusOK}
	s, err := client.ReadSettings(a)
	if err == nil {
		err = s.Address()
	}
	if err != nil {
		f := a.Explain(ctx, err)
		e.Status, e.Message, e.Try = statusFail, f.Message, f.Try
		return []examination{e}, false
	}
	e.Message = fmt.Sprintf("%s → %s", cmp.Or(s.Name, "(environment)"), s.URL)
	all = append(all, e)
	if s.Store.Exposed() {
		all = append(all, examination{Name: "profile file", Status: statusWarn, Message: "other users can read the tokens in " + s.Store.Path, Try: "chmod 600 " + s.Store.Path})
	}
	return all, true
}

func examineServer(ctx context.Context, a *output.Console) (all []examination, reachable bool) {
	c, err := client.ConnectAnonymously(a)
	if err != nil {
		return []examination{{Name: "server", Status: statusFail, Message: err.Error()}}, false
	}
	asked := a.Clock.Now()
	health, date, err := publicHealth(ctx, c)
	if err != nil {
		f := a.Explain(ctx, err)
		return []examination{{Name: "server", Status: statusFail, Message: f.Message, Try: "gpuaas up, or check the address"}}, false
	}
	all = append(all, examination{Name: "server", Status: statusOK, Message: fmt.Sprintf("answers in %s", a.Clock.Now().Sub(asked).Round(time.Millisecond))})
	if details, ok := healthDetails(ctx, a); ok {
		health = details
	}
	for _, check := range health.Checks {
		e := examination{Name: "server/" + check.Name, Status: statusOK, Message: output.OrDash(check.Message)}
		switch check.Status {
		case oapi.CheckStatusOk:
		case oapi.CheckStatusDegraded:
			e.Status, e.Message = statusWarn, fmt.Sprintf("%s (since %s)", e.Message, output.FormatTime(check.StartedAt))
		case oapi.CheckStatusDown:
			e.Status, e.Message, e.Try = statusFail, fmt.Sprintf("%s (since %s)", e.Message, output.FormatTime(check.StartedAt)), "read the log of the server"
		}
		all = append(all, e)
	}
	all = append(all, clockExamination("clock", "server", asked, date))
	if options, err := client.Send[oapi.SignInOptions](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSignInOptions(ctx) }); err == nil && options.Value.Oidc != nil {
		all = append(all, examineProvider(ctx, a, options.Value.Oidc.Issuer)...)
	}
	return append(all, examineSignIn(ctx, a)), true
}

// healthDetails returns the checks with their messages, which only operators can read.
func healthDetails(ctx context.Context, a *output.Console) (oapi.Health, bool) {
	c, err := client.Connect(a)
	if err != nil {
		return oapi.Health{}, false
	}
	health, err := client.Send[oapi.Health](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetHealthDetails(ctx) })
	return health.Value, err == nil
}

// publicHealth reads the states. The document is the same whether a dependency is down or not.
func publicHealth(ctx context.Context, c *client.Client) (h oapi.Health, date time.Time, err error) {
	within, cancel := context.WithTimeout(ctx, client.OneTry)
	defer cancel()
	resp, err := c.GetHealthz(within)
	if err != nil {
		return h, date, c.Unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, client.BodyLimit))
	if err != nil {
		return h, date, c.Unreachable(err)
	}
	if json.Unmarshal(body, &h) != nil || h.Status == "" {
		return h, date, c.Problem(resp, body)
	}
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return h, date, nil
}

// The Date header has whole seconds and took a moment to arrive, hence the first
// bound; certificates and signed tasks allow about a minute, hence the second.
const (
	clockWarn = 5 * time.Second
	clockFail = time.Minute
)

func clockExamination(name, whose string, here, there time.Time) examination {
	e := examination{Name: name, Status: statusOK}
	if there.IsZero() {
		e.Status, e.Message = statusWarn, "the response of the "+whose+" has no date"
		return e
	}
	apart := here.Sub(there).Abs()
	e.Message = fmt.Sprintf("%s apart from that of the %s", apart.Round(time.Second), whose)
	switch {
	case apart > clockFail:
		e.Status, e.Try = statusFail, "set the clock: timedatectl set-ntp true"
	case apart > clockWarn:
		e.Status, e.Try = statusWarn, "set the clock: timedatectl set-ntp true"
	}
	return e
}

func examineSignIn(ctx context.Context, a *output.Console) examination {
	e := examination{Name: "sign-in", Status: statusOK}
	c, err := client.Connect(a)
	var me client.Response[oapi.Me]
	if err == nil {
		me, err = client.Send[oapi.Me](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil, c.InProject) })
	}
	if err != nil {
		f := a.Explain(ctx, err)
		e.Status, e.Message, e.Try = statusFail, f.Message, f.Try
		return e
	}
	e.Message = callerText(me.Value)
	return e
}

// callerText describes the caller: a user, who may be in no tenant, or a service account.
func callerText(me oapi.Me) string {
	text := "no user"
	switch {
	case me.User != nil:
		text = fmt.Sprintf("%s (%s)", me.User.Email, me.User.Role)
	case me.ServiceAccount != nil:
		text = "service account " + me.ServiceAccount.Name
	}
	if me.Tenant == nil {
		return text + ", in no tenant"
	}
	text += ", tenant " + me.Tenant.Name
	if me.Project != nil {
		text += ", project " + me.Project.Name
	}
	return text
}

// examineDataDir compares the owner of the data directory with the server's health: a process that
// owns the data and does not respond is a problem.
func examineDataDir(a *output.Console, reachable bool) []examination {
	s, err := client.ReadSettings(a)
	if err != nil || s.DataDir == "" {
		return nil
	}
	e := examination{Name: "data directory", Status: statusOK, Message: s.DataDir}
	if _, err := os.Stat(s.DataDir); err != nil {
		if reachable {
			return nil // the server runs elsewhere
		}
		e.Status, e.Message, e.Try = statusWarn, s.DataDir+" does not exist", "gpuaas up --data-dir "+s.DataDir
		return []examination{e}
	}
	holder, held := heldBy(s.DataDir)
	switch {
	case held && reachable:
		e.Message += ", locked by process " + holder
	case held:
		e.Status, e.Message = statusWarn, fmt.Sprintf("%s is locked by process %s, which does not respond", s.DataDir, holder)
		e.Try = "wait until it has started; otherwise read its log, or end process " + holder
	case reachable:
		e.Status, e.Message = statusWarn, s.DataDir+" is not locked, but another server responds"
		e.Try = "--profile, or gpuaas up --data-dir " + s.DataDir
	default:
		e.Message += ", free"
	}
	return []examination{e}
}

// heldBy queries the kernel for the process that has locked a data directory. The query acquires the
// lock shared for an instant, so that two doctors do not block each other.
func heldBy(dir string) (holder string, held bool) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*", "lock")) // the pattern is well formed
	for _, path := range append(paths, filepath.Join(dir, "lock")) {
		lock, err := os.Open(path)
		if err != nil {
			continue
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		text, _ := io.ReadAll(io.LimitReader(lock, 20))
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return cmp.Or(strings.TrimSpace(string(text)), "?"), true
		}
	}
	return "", false
}
