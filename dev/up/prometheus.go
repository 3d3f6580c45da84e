package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/deploy/alerts"
	"github.com/gpuaas/gpuaas/deploy/observability"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// prometheus is the Prometheus of this computer that scrapes the installation.
type prometheus struct {
	url     string
	cmd     *exec.Cmd
	started chan error
	ended   chan struct{}
}

// prometheusReady is the time for its start.
const prometheusReady = 30 * time.Second

// checkPrometheus returns an error before anything is started if --observability cannot have an effect.
func (c Config) checkPrometheus() error {
	if !c.Observability {
		return nil
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		return errs.Invalid("--observability", "Prometheus is not installed on this computer").Try("install the package prometheus, or start without the flag")
	}
	return nil
}

// startPrometheus scrapes the metrics and evaluates the alerts of the product. Its pages show the dashboards with present
// values.
func (i *installation) startPrometheus(ctx context.Context) error {
	if !i.cfg.Observability {
		return nil
	}
	dir := filepath.Join(i.cfg.Dir, "prometheus")
	if err := i.writePrometheus(dir); err != nil {
		return err
	}
	var failed error
	for range prometheusPorts { // another program may listen on a free port before Prometheus does
		p, err := newPrometheus(ctx, dir)
		if err != nil {
			return err
		}
		go p.run()
		if err := <-p.started; err != nil {
			return fmt.Errorf("starting Prometheus: %w", err)
		}
		if failed = p.await(ctx); failed == nil {
			i.prometheus = p
			return nil
		}
		failed = errors.Join(failed, p.stop(ctx))
	}
	return failed
}

// prometheusPorts is the number of ports that are tried.
const prometheusPorts = 3

func newPrometheus(ctx context.Context, dir string) (*prometheus, error) {
	address, err := freeLoopback(ctx)
	if err != nil {
		return nil, err
	}
	p := &prometheus{url: "http://" + address, started: make(chan error, 1), ended: make(chan struct{})}
	p.cmd = exec.Command("prometheus", //nolint:gosec,noctx // it ends after the server
		"--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--storage.tsdb.retention.time=2d",
		"--web.listen-address="+address, "--web.console.templates="+filepath.Join(dir, "consoles"), "--web.console.libraries="+filepath.Join(dir, "consoles"), "--log.level=warn")
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	p.cmd.SysProcAttr = endsWithUs()
	return p, nil
}

// run starts Prometheus and waits for its end, on one thread.
func (p *prometheus) run() {
	runtime.LockOSThread() // see endsWithUs
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	p.started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

// writePrometheus writes the configuration, the rules and the pages.
func (i *installation) writePrometheus(dir string) error {
	files := map[string]string{
		"prometheus.yaml": fmt.Sprintf(`global: {scrape_interval: 5s, evaluation_interval: 5s, external_labels: {gpuaas_url: %q}}
rule_files: ["rules/*.yaml"]
scrape_configs:
  - job_name: gpuaas
    static_configs: [{targets: [%q]}]
`, i.server.URL(), strings.TrimSuffix(strings.TrimPrefix(i.server.MetricsURL(), "http://"), "/metrics")),
	}
	rules, err := alerts.Files()
	if err != nil {
		return err
	}
	for name, text := range rules {
		files[filepath.Join("rules", name)] = string(text)
	}
	objectives, err := observability.Default()
	if err != nil {
		return err
	}
	for _, d := range observability.Dashboards(objectives) {
		files[filepath.Join("consoles", d.Name+".html")] = d.Console(i.server.URL())
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			return fmt.Errorf("making the directory of Prometheus: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing the configuration of Prometheus: %w", err)
		}
	}
	return nil
}

// freeLoopback returns an address whose port was free a moment ago: Prometheus opens it by itself.
func freeLoopback(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a port for Prometheus: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// await waits until Prometheus can be queried.
func (p *prometheus) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prometheusReady)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/-/ready", http.NoBody)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			return errors.New("the program prometheus has ended at its start")
		case <-ctx.Done():
			return fmt.Errorf("waiting for Prometheus: %w", ctx.Err())
		case <-time.After(tokenPause):
		}
	}
}

// overview is the address of the page with the present values.
func (p *prometheus) overview() string { return p.url + "/consoles/overview.html" }

func (p *prometheus) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("stopping Prometheus: %w", ctx.Err())
	}
}
