// Package observability generates what monitors an installation: recording rules and alerts of the service level
// objectives, and dashboards of Grafana. No program links it.
package observability

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Objectives are the service level objectives of slo.yaml.
type Objectives struct {
	Period     Window      `yaml:"period"`
	Burns      []Burn      `yaml:"burns"`
	Objectives []Objective `yaml:"objectives"`
}

// Burn is a condition of an alert: both windows burn the error budget faster than the rate.
type Burn struct {
	Alert    string  `yaml:"alert"`
	Severity string  `yaml:"severity"`
	Rate     float64 `yaml:"rate"`
	Long     Window  `yaml:"long"`
	Short    Window  `yaml:"short"`
}

// Objective has exactly one measure.
type Objective struct {
	Name    string   `yaml:"name"`
	Title   string   `yaml:"title"`
	Goal    float64  `yaml:"goal"` // percent
	Ratio   *Ratio   `yaml:"ratio"`
	Latency *Latency `yaml:"latency"`
	State   *State   `yaml:"state"`
}

// Ratio measures the share of counted events that are errors.
type Ratio struct {
	Errors string `yaml:"errors"`
	Total  string `yaml:"total"`
}

// Latency measures the share of observations above a bound of a histogram.
type Latency struct {
	Histogram string  `yaml:"histogram"`
	Matchers  string  `yaml:"matchers"`
	Seconds   float64 `yaml:"seconds"`
}

// State measures the share of time and series in which a value is above a limit.
type State struct {
	Expr  string  `yaml:"expr"`
	Above float64 `yaml:"above"`
}

// Window is a duration as Prometheus writes it: 5m, 6h, 30d.
type Window string

var windowForm = regexp.MustCompile(`^([1-9][0-9]{0,3})([mhd])$`)

func (w Window) duration() (time.Duration, error) {
	m := windowForm.FindStringSubmatch(string(w))
	if m == nil {
		return 0, fmt.Errorf("%q is not a window: use a number with m, h or d", string(w))
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, fmt.Errorf("reading window %q: %w", string(w), err)
	}
	return time.Duration(n) * map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]], nil
}

// Budget is the share of errors that the goal allows.
func (o Objective) Budget() float64 { return (100 - o.Goal) / 100 }

// Parse reads slo.yaml. It rejects unknown fields, and alerts that could never fire.
func Parse(text []byte) (o Objectives, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&o); err != nil {
		return o, fmt.Errorf("slo.yaml: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return o, errors.New("slo.yaml: it has more than one document")
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("slo.yaml: %w", err)
	}
	return o, nil
}

var (
	objectiveName = regexp.MustCompile(`^[a-z][a-z0-9-]{1,40}$`)
	alertName     = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
)

func (o Objectives) check() error {
	period, err := o.Period.duration()
	if err != nil {
		return fmt.Errorf("period: %w", err)
	}
	if len(o.Burns) == 0 || len(o.Objectives) == 0 {
		return errors.New("burns or objectives are missing")
	}
	for i, b := range o.Burns {
		if err := b.check(period); err != nil {
			return fmt.Errorf("burn %d: %w", i+1, err)
		}
	}
	for i, one := range o.Objectives {
		if slices.ContainsFunc(o.Objectives[:i], func(other Objective) bool { return other.Name == one.Name }) {
			return fmt.Errorf("objective %s is there twice", one.Name)
		}
		if err := one.check(o.Burns); err != nil {
			return fmt.Errorf("objective %s: %w", one.Name, err)
		}
	}
	return nil
}

func (b Burn) check(period time.Duration) error {
	long, err := b.Long.duration()
	if err != nil {
		return err
	}
	short, err := b.Short.duration()
	if err != nil {
		return err
	}
	switch {
	case !alertName.MatchString(b.Alert):
		return fmt.Errorf("alert %q is not a name in CamelCase", b.Alert)
	case b.Severity != "critical" && b.Severity != "warning":
		return fmt.Errorf("severity %q is neither critical nor warning", b.Severity)
	case b.Rate < 1:
		return fmt.Errorf("rate %v does not use up the budget: it is at least 1", b.Rate)
	case short >= long:
		return fmt.Errorf("the short window %s is not shorter than the long one, %s", b.Short, b.Long)
	case long > period:
		return fmt.Errorf("the window %s is longer than the period", b.Long)
	case b.Rate*long.Hours() > period.Hours():
		return fmt.Errorf("at rate %v the budget of the period is used up before the window %s ends", b.Rate, b.Long)
	}
	return nil
}

func (o Objective) check(burns []Burn) error {
	measures := 0
	for _, has := range []bool{o.Ratio != nil, o.Latency != nil, o.State != nil} {
		if has {
			measures++
		}
	}
	switch {
	case !objectiveName.MatchString(o.Name):
		return errors.New("its name is not in kebab case")
	case o.Title == "" || strings.ContainsAny(o.Title, "|\n"):
		return errors.New("its title is missing or has a line break or bar")
	case !(o.Goal > 0 && o.Goal < 100):
		return fmt.Errorf("goal %v is not between 0 and 100 percent", o.Goal)
	case measures != 1:
		return errors.New("it has not exactly one of ratio, latency and state")
	case o.Ratio != nil && (o.Ratio.Errors == "" || o.Ratio.Total == ""):
		return errors.New("ratio lacks errors or total")
	case o.Latency != nil && (o.Latency.Histogram == "" || o.Latency.Seconds <= 0):
		return errors.New("latency lacks a histogram or seconds above 0")
	case o.State != nil && o.State.Expr == "":
		return errors.New("state lacks expr")
	}
	for _, b := range burns {
		if b.Rate*o.Budget() >= 1 {
			return fmt.Errorf("rate %v of a budget of %s needs more errors than requests, so %s cannot fire: raise the goal", b.Rate, percent(o.Budget()), b.Alert)
		}
	}
	return nil
}

func percent(share float64) string { return number(share*100) + " %" }

// number has six significant digits, so that no rounding error of a float is printed.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
