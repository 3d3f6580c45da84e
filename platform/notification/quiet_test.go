package notification

import (
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func minute(t *testing.T, text string) Minute {
	t.Helper()
	m, err := ParseMinute("x", text)
	if err != nil || m.String() != text {
		t.Fatalf("%s: %s, %v", text, m, err)
	}
	return m
}

// Digests and quiet hours follow the clock of the user, across its changes and on a leap day.
func TestWhenEmailsAreDue(t *testing.T) {
	t.Parallel()
	const berlin, utc, kolkata, apia = "Europe/Berlin", "UTC", "Asia/Kolkata", "Pacific/Apia"
	for name, c := range map[string]struct {
		value            Value
		zone, start, end string // quiet hours; empty: none
		now, want        string
	}{
		"at once":                            {Now, utc, "", "", "2026-01-05T09:10:00Z", "2026-01-05T09:10:00Z"},
		"at the next hour":                   {Hourly, utc, "", "", "2026-01-05T09:10:00Z", "2026-01-05T10:00:00Z"},
		"a full hour is the next one":        {Hourly, utc, "", "", "2026-01-05T09:00:00Z", "2026-01-05T10:00:00Z"},
		"today at eight":                     {Daily, berlin, "", "", "2026-01-05T06:59:59Z", "2026-01-05T07:00:00Z"},
		"eight itself is tomorrow":           {Daily, berlin, "", "", "2026-01-05T07:00:00Z", "2026-01-06T07:00:00Z"},
		"daily before the leap day":          {Daily, berlin, "", "", "2028-02-28T12:00:00Z", "2028-02-29T07:00:00Z"},
		"daily on the leap day":              {Daily, berlin, "", "", "2028-02-29T12:00:00Z", "2028-03-01T07:00:00Z"},
		"no leap day":                        {Daily, berlin, "", "", "2026-02-28T12:00:00Z", "2026-03-01T07:00:00Z"},
		"the day is 23 hours long":           {Daily, berlin, "", "", "2026-03-28T07:00:00Z", "2026-03-29T06:00:00Z"},
		"the day is 25 hours long":           {Daily, berlin, "", "", "2026-10-24T06:00:00Z", "2026-10-25T07:00:00Z"},
		"an offset of half an hour":          {Daily, kolkata, "", "", "2026-01-05T02:29:00Z", "2026-01-05T02:30:00Z"},
		"a day that the zone skips":          {Daily, apia, "", "", "2011-12-30T00:00:00Z", "2011-12-30T18:00:00Z"},
		"outside of quiet hours":             {Now, berlin, "22:00", "07:00", "2026-01-05T09:00:00Z", "2026-01-05T09:00:00Z"},
		"before midnight":                    {Now, berlin, "22:00", "07:00", "2026-01-05T22:00:00Z", "2026-01-06T06:00:00Z"},
		"after midnight":                     {Now, berlin, "22:00", "07:00", "2026-01-05T00:00:00Z", "2026-01-05T06:00:00Z"},
		"the first quiet minute":             {Now, berlin, "22:00", "07:00", "2026-01-05T21:00:00Z", "2026-01-06T06:00:00Z"},
		"the first minute after":             {Now, berlin, "22:00", "07:00", "2026-01-05T06:00:00Z", "2026-01-05T06:00:00Z"},
		"within one day":                     {Now, berlin, "12:00", "14:00", "2026-01-05T12:30:00Z", "2026-01-05T13:00:00Z"},
		"a daily digest waits":               {Daily, berlin, "22:00", "09:00", "2026-01-05T12:00:00Z", "2026-01-06T08:00:00Z"},
		"an hourly digest waits":             {Hourly, berlin, "12:00", "14:00", "2026-01-05T10:30:00Z", "2026-01-05T13:00:00Z"},
		"the night of the spring":            {Now, berlin, "22:00", "07:00", "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"},
		"the end is a skipped minute":        {Now, berlin, "22:00", "02:30", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"},
		"the night of the autumn":            {Now, berlin, "22:00", "07:00", "2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"},
		"the second of two equal hours":      {Now, berlin, "22:00", "02:30", "2026-10-25T01:10:00Z", "2026-10-25T01:30:00Z"},
		"quiet hours of the year's last day": {Now, utc, "22:00", "07:00", "2026-12-31T23:00:00Z", "2027-01-01T07:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			var quiet *Quiet
			if c.start != "" {
				quiet = &Quiet{minute(t, c.start), minute(t, c.end)}
			}
			if got := due(c.value, at(t, c.now), zone, quiet); !got.Equal(at(t, c.want)) {
				t.Errorf("got %s, expected %s", got.Format(time.RFC3339), c.want)
			}
		})
	}
}

// Whatever the time, an e-mail is never due before it, never in quiet hours, and within two days.
func TestDueIsNeverQuiet(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, quiet := range []*Quiet{nil, {0, 1}, {1320, 420}, {120, 180}, {150, 160}, {600, 599}, {1439, 0}} {
		for _, day := range []string{"2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z", "2028-02-28T00:00:00Z"} {
			for m := 0; m < 72*60; m += 7 {
				now := at(t, day).Add(time.Duration(m) * time.Minute)
				for _, v := range []Value{Now, Hourly, Daily} {
					got := due(v, now, zone, quiet)
					if got.Before(now) || got.After(now.Add(50*time.Hour)) || !quiet.until(got, zone).Equal(got) {
						t.Fatalf("%s at %s with %v is due at %s", v, now, quiet, got)
					}
				}
			}
		}
	}
}

func TestTimesThatAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "24:00", "7", "07:60", "-1:00", "22:00:00", "22.00", "٢٢:٠٠"} {
		if m, err := ParseMinute("x", text); err == nil {
			t.Errorf("%q is %s", text, m)
		}
	}
}
