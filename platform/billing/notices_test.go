package billing_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
)

var (
	t0    = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	usual = billing.Terms{Threshold: 1000, Reminder: 24 * time.Hour, Grace: time.Hour}
)

// A sequence of readings, with the notices of each.
func TestNotices(t *testing.T) {
	t.Parallel()
	type look struct {
		after         time.Duration // since the first
		balance, burn money.Minor
		released      bool
		want          []billing.Notice
	}
	low, pending, cleared, depleted := []billing.Notice{billing.LowBalance}, []billing.Notice{billing.ReleasePending},
		[]billing.Notice{billing.ReleaseCleared}, []billing.Notice{billing.Depleted}
	for name, looks := range map[string][]look{
		"enough is no news":   {{0, 1000, 100, false, nil}, {time.Hour, 1000, 0, false, nil}},
		"once for a crossing": {{0, 999, 100, false, low}, {time.Minute, 900, 100, false, nil}, {23 * time.Hour, 800, 100, false, nil}},
		"reminded after a day, and after another": {
			{0, 999, 10, false, low}, {24 * time.Hour, 900, 10, false, low}, {25 * time.Hour, 890, 10, false, nil}, {48 * time.Hour, 800, 10, false, low},
		},
		"not reminded of what nothing uses":              {{0, 999, 10, false, low}, {48 * time.Hour, 900, 0, false, nil}, {49 * time.Hour, 900, 10, false, low}},
		"a credit ends it, and the next crossing is new": {{0, 999, 10, false, low}, {time.Minute, 1000, 10, false, nil}, {time.Hour, 999, 10, false, low}},
		"a short runway is announced once":               {{0, 2000, 2001, false, pending}, {time.Minute, 1990, 2001, false, nil}},
		"exactly the grace is long enough":               {{0, 2000, 2000, false, nil}},
		"low and short at once":                          {{0, 500, 501, false, append(slices.Clone(low), pending...)}},
		"a credit clears it":                             {{0, 2000, 2001, false, pending}, {time.Minute, 9000, 2001, false, cleared}, {time.Hour, 8000, 2001, false, nil}},
		"letting go of it clears it as well":             {{0, 2000, 2001, false, pending}, {time.Minute, 1990, 0, false, cleared}},
		"announced, and then nothing is left":            {{0, 2000, 2001, false, pending}, {time.Minute, -5, 0, false, append(slices.Clone(low), cleared...)}},
		"released, as was announced":                     {{0, 2000, 2001, false, pending}, {time.Hour, -1, 0, true, append(slices.Clone(low), depleted...)}, {2 * time.Hour, -1, 0, false, nil}},
		"without a warning, from plenty to nothing":      {{0, 5000, 100, false, nil}, {time.Minute, 0, 0, true, append(slices.Clone(low), depleted...)}},
		"what came too late is released too":             {{0, 0, 0, true, append(slices.Clone(low), depleted...)}, {time.Minute, 0, 0, true, depleted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s billing.State
			for i, l := range looks {
				var got []billing.Notice
				s, got = billing.Next(s, billing.Reading{Balance: l.balance, Burn: l.burn, Released: l.released, Now: t0.Add(l.after), Terms: usual})
				if !slices.Equal(got, l.want) {
					t.Errorf("reading %d returns %v, want %v", i, got, l.want)
				}
			}
		})
	}
}

// The deadline is the end of the runway, and stays as announced.
func TestTheDeadlineStaysUnchanged(t *testing.T) {
	t.Parallel()
	s, _ := billing.Next(billing.State{}, billing.Reading{Balance: 1500, Burn: 3600, Now: t0, Terms: usual})
	if s.ReleasesAt == nil || !s.ReleasesAt.Equal(t0.Add(25*time.Minute)) {
		t.Fatalf("releases at %v", s.ReleasesAt)
	}
	s, _ = billing.Next(s, billing.Reading{Balance: 1400, Burn: 7200, Now: t0.Add(time.Minute), Terms: usual})
	if !s.ReleasesAt.Equal(t0.Add(25 * time.Minute)) {
		t.Errorf("it moved to %v", s.ReleasesAt)
	}
}

// A balance and a burn that do not fit together do not overflow into a warning.
func TestRunwayOfAnySize(t *testing.T) {
	t.Parallel()
	const most = money.Minor(1<<63 - 1)
	for _, r := range []billing.Reading{{Balance: most, Burn: 1}, {Balance: most, Burn: most}, {Balance: most, Burn: 0}} {
		r.Now, r.Terms = t0, usual
		if _, told := billing.Next(billing.State{}, r); len(told) != 0 {
			t.Errorf("%d at %d an hour: %v", r.Balance, r.Burn, told)
		}
	}
	if _, told := billing.Next(billing.State{}, billing.Reading{Balance: 1000, Burn: most, Now: t0, Terms: usual}); !slices.Equal(told, []billing.Notice{billing.ReleasePending}) {
		t.Errorf("a burn of everything: %v", told)
	}
}

// For any sequence of balances: a crossing is notified once; a release is announced before it is
// cancelled or happens; an unchanged reading sends nothing.
func TestNoticesFollowTheMoney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := billing.Reading{Now: t0, Terms: usual}
		var s billing.State
		var lowTold time.Time // of the present crossing
		var pending bool      // the state that a consumer derives from the events alone
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			r.Now = r.Now.Add(time.Duration(rapid.IntRange(1, 30*60).Draw(t, "minutes")) * time.Minute)
			r.Balance = money.Minor(rapid.IntRange(-500, 3000).Draw(t, "balance"))
			r.Burn = money.Minor(rapid.SampledFrom([]int{0, 100, 1000, 5000}).Draw(t, "burn"))
			if r.Released = r.Balance <= 0 && r.Burn > 0; r.Released {
				r.Burn = 0 // the job releases before it sends the notice
			}
			next, told := billing.Next(s, r)
			count := func(n billing.Notice) (c int) {
				for _, one := range told {
					if one == n {
						c++
					}
				}
				return c
			}
			low := r.Balance < usual.Threshold
			switch n := count(billing.LowBalance); {
			case n > 1, n == 1 && !low:
				t.Fatalf("low %d times at %d", n, r.Balance)
			case low && lowTold.IsZero() && n == 0:
				t.Fatalf("a crossing to %d was not notified", r.Balance)
			case n == 1 && !lowTold.IsZero() && r.Now.Sub(lowTold) < usual.Reminder:
				t.Fatalf("notified again after %s", r.Now.Sub(lowTold))
			case low && r.Burn > 0 && n == 0 && r.Now.Sub(lowTold) >= usual.Reminder:
				t.Fatalf("not reminded after %s", r.Now.Sub(lowTold))
			case n == 1:
				lowTold = r.Now
			case !low:
				lowTold = time.Time{}
			}
			short := r.Balance > 0 && r.Burn > 0 && r.Balance < r.Burn // less than the grace of an hour
			switch p, c, d := count(billing.ReleasePending), count(billing.ReleaseCleared), count(billing.Depleted); {
			case p+c+d > 1:
				t.Fatalf("at once: %v", told)
			case p == 1 && (pending || !short), c == 1 && (!pending || short || r.Released), d == 1 && !r.Released:
				t.Fatalf("%v at %+v, pending before: %t", told, r, pending)
			case short && !pending && p == 0, !short && pending && c+d == 0, r.Released && d == 0:
				t.Fatalf("%+v was not notified, pending before: %t, sent %v", r, pending, told)
			case p == 1:
				pending = true
			case c+d == 1:
				pending = false
			}
			if pending != (next.PendingSince != nil) || pending != (next.ReleasesAt != nil) {
				t.Fatalf("state %+v", next)
			}
			again := r
			again.Released = false
			if _, twice := billing.Next(next, again); len(twice) != 0 {
				t.Fatalf("the same reading returns %v after %v", twice, told)
			}
			s = next
		}
	})
}

// The files of a tenant without a balance are deleted after the grace time, with notices before, and a credit cancels it.
func TestFilesOfATenantWithoutABalance(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	type look struct {
		after   time.Duration
		balance money.Minor
		stored  int64
		deleted bool
		want    billing.Notice
	}
	for name, looks := range map[string][]look{
		"nothing that costs something": {{0, 0, 0, false, ""}},
		"scheduled, repeated at 7, 3 and 1 days, and deleted": {
			{0, 0, 1, false, billing.FilesScheduled},
			{6 * day, -1, 1, false, ""},
			{7 * day, -1, 1, false, billing.FilesScheduled},
			{8 * day, -1, 1, false, ""},
			{11 * day, -1, 1, false, billing.FilesScheduled},
			{13 * day, -1, 1, false, billing.FilesScheduled},
			{13*day + time.Hour, -1, 1, false, ""},
			{14 * day, -1, 1, true, billing.FilesDeleted},
			{14*day + time.Hour, -1, 1, false, ""},
			{15 * day, -1, 0, false, ""},
			{16 * day, -1, 1, false, billing.FilesScheduled},
		},
		"late notices are one":               {{0, 0, 1, false, billing.FilesScheduled}, {13*day + time.Hour, -1, 1, false, billing.FilesScheduled}, {13*day + 2*time.Hour, -1, 1, false, ""}},
		"a credit cancels it":                {{0, 0, 1, false, billing.FilesScheduled}, {day, 1, 1, false, billing.FilesCancelled}, {2 * day, 1, 1, false, ""}, {3 * day, 0, 1, false, billing.FilesScheduled}},
		"the tenant deletes the files":       {{0, 0, 1, false, billing.FilesScheduled}, {day, 0, 0, false, billing.FilesCancelled}, {2 * day, 0, 0, false, ""}},
		"a credit after the deletion is not": {{0, 0, 1, false, billing.FilesScheduled}, {14 * day, 0, 1, true, billing.FilesDeleted}, {15 * day, 5000, 1, false, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			terms := billing.Terms{FilesGrace: 14 * day}
			var s billing.State
			for i, l := range looks {
				r := billing.Reading{Balance: l.balance, Stored: l.stored, FilesDeleted: l.deleted, Now: t0.Add(l.after), Terms: terms}
				var all []billing.Notice
				s, all = billing.Next(s, r)
				files := slices.DeleteFunc(slices.Clone(all), func(n billing.Notice) bool { return n == billing.LowBalance })
				if got := slices.Concat(files, []billing.Notice{""})[0]; got != l.want || len(files) > 1 {
					t.Errorf("reading %d returns %v, want %q", i, files, l.want)
				}
				r.FilesDeleted = false
				if _, again := billing.Next(s, r); len(again) > 0 {
					t.Errorf("reading %d repeated returns %v", i, again)
				}
			}
		})
	}
}
