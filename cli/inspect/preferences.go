package inspect

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const preferencesText = `Shows how you are notified: for each kind and channel the value in effect, and who chose it.
"set" changes one of them, and the flags change the time zone and the quiet hours. During quiet
hours e-mails wait, except those of critical kinds. --tenant shows and changes the defaults of
the tenant.`

// preferenceFlags are the flags of gpuaas notifications preferences.
type preferenceFlags struct {
	quiet, zone     string
	noQuiet, revoke bool
	tenant          bool
}

func newPreferences(a *output.Console) *cobra.Command {
	var f preferenceFlags
	cmd := &cobra.Command{
		Use: "preferences", Short: "Show or set notification preferences", Long: preferencesText, Args: cobra.NoArgs,
		Example: "  gpuaas notifications preferences --quiet 22:00-07:00 --time-zone Europe/Berlin\n  gpuaas notifications preferences set low_balance email daily",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return changePreferences(cmd, a, f.tenant, func(w *oapi.NotificationPreferencesWrite) (bool, error) { return f.apply(cmd, w) })
		},
	}
	cmd.Flags().StringVar(&f.quiet, "quiet", "", "quiet hours, like 22:00-07:00")
	cmd.Flags().BoolVar(&f.noQuiet, "no-quiet", false, "remove the quiet hours")
	cmd.Flags().StringVar(&f.zone, "time-zone", "", "time zone of quiet hours and daily digests, like Europe/Berlin")
	cmd.Flags().BoolVar(&f.revoke, "revoke-links", false, "links in earlier e-mails no longer end e-mails")
	cmd.PersistentFlags().BoolVar(&f.tenant, "tenant", false, "the defaults of the tenant")
	cmd.MarkFlagsMutuallyExclusive("quiet", "no-quiet")
	cmd.AddCommand(newPreferenceSet(a, &f))
	return cmd
}

func newPreferenceSet(a *output.Console, f *preferenceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "set KIND CHANNEL VALUE", Short: "Set one preference", Args: cobra.ExactArgs(3),
		Long: "Sets how a kind is notified over a channel (in_app, email): off, now, hourly or daily. \"default\" removes the choice.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changePreferences(cmd, a, f.tenant, func(w *oapi.NotificationPreferencesWrite) (bool, error) {
				w.Choices = withChoice(w.Choices, args[0], oapi.NotificationChannel(args[1]), oapi.NotificationValue(args[2]))
				return true, nil
			})
		},
	}
}

// withChoice replaces the choice of a kind and channel.
func withChoice(all []oapi.NotificationChoice, kind string, channel oapi.NotificationChannel, value oapi.NotificationValue) []oapi.NotificationChoice {
	others := []oapi.NotificationChoice{}
	for _, c := range all {
		if c.Kind != kind || c.Channel != channel {
			others = append(others, c)
		}
	}
	if value == "default" {
		return others
	}
	return append(others, oapi.NotificationChoice{Kind: kind, Channel: channel, Value: value})
}

func (f preferenceFlags) apply(cmd *cobra.Command, w *oapi.NotificationPreferencesWrite) (changed bool, err error) {
	if f.quiet != "" {
		start, end, both := strings.Cut(f.quiet, "-")
		if !both {
			return false, output.UsageError("--quiet %q has no start and end", f.quiet)
		}
		w.QuietHours = &oapi.QuietHours{Start: start, End: end}
	}
	if f.noQuiet {
		w.QuietHours = nil
	}
	if cmd.Flags().Changed("time-zone") {
		w.TimeZone = output.PointerOrNil(f.zone)
	}
	w.RevokeLinks = output.PointerOrNil(f.revoke)
	return f.quiet != "" || f.noQuiet || f.revoke || cmd.Flags().Changed("time-zone"), nil
}

// changePreferences shows the preferences, after a change if change makes one. The others are sent as they were read.
func changePreferences(cmd *cobra.Command, a *output.Console, tenant bool, change func(*oapi.NotificationPreferencesWrite) (bool, error)) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	got, err := client.Send[oapi.NotificationPreferences](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
		if tenant {
			return c.GetTenantNotificationPreferences(ctx)
		}
		return c.GetNotificationPreferences(ctx)
	})
	if err != nil {
		return err
	}
	body := ownPreferences(got.Value, tenant)
	changed, err := change(&body)
	if err != nil {
		return err
	}
	if changed {
		match := strconv.Quote(got.Value.Version)
		got, err = client.Change[oapi.NotificationPreferences](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			if tenant {
				return c.PutTenantNotificationPreferences(ctx, &oapi.PutTenantNotificationPreferencesParams{IfMatch: &match}, body, once)
			}
			return c.PutNotificationPreferences(ctx, &oapi.PutNotificationPreferencesParams{IfMatch: &match}, body, once)
		})
	}
	if err != nil {
		return err
	}
	return a.Show(got.Raw, preferenceTable(got.Value))
}

// ownPreferences returns the choices that the user or the tenant has made.
func ownPreferences(p oapi.NotificationPreferences, tenant bool) oapi.NotificationPreferencesWrite {
	w := oapi.NotificationPreferencesWrite{TimeZone: p.TimeZone, QuietHours: p.QuietHours, Choices: []oapi.NotificationChoice{}}
	own := oapi.NotificationChoiceInEffectSource("user")
	if tenant {
		own = "tenant"
	}
	for _, k := range p.Kinds {
		for _, c := range k.Channels {
			if c.Source == own {
				w.Choices = append(w.Choices, oapi.NotificationChoice{Kind: k.Kind, Channel: c.Channel, Value: c.Value})
			}
		}
	}
	return w
}

func preferenceTable(p oapi.NotificationPreferences) output.Table {
	t := output.Table{Head: []string{"KIND", "CHANNEL", "VALUE", "CHOSEN BY"}, Wide: []string{"SEVERITY", "AUDIENCE", "ALLOWED"}}
	for _, k := range p.Kinds {
		for _, c := range k.Channels {
			t.Add("preference/"+k.Kind, k.Kind, string(c.Channel), string(c.Value), string(c.Source), string(k.Severity), k.Audience, strconv.FormatBool(k.Enabled))
		}
	}
	if q := p.QuietHours; q != nil {
		t.Add("preference/quiet", "quiet hours", "email", q.Start+"-"+q.End+" "+output.ValueOrZero(p.TimeZone), "", "", "", "")
	}
	return t
}

func newTestNotification(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "test", Short: "Send a test notification", Long: "Sends you a notification over each channel, and states why a channel was not used.", Args: cobra.NoArgs}
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.TestNotification(ctx, nil, once)
		}, nil
	}, func(_ *output.Console, all ...oapi.NotificationTest) output.Table {
		t := output.Table{Head: []string{"CHANNEL", "SENT", "REASON"}, Wide: []string{"NOTIFICATION"}}
		for _, test := range all {
			for _, ch := range test.Channels {
				t.Add("channel/"+string(ch.Channel), string(ch.Channel), strconv.FormatBool(ch.Sent), output.OrDash(output.CellText(output.ValueOrZero(ch.Reason))), test.NotificationId.String())
			}
		}
		return t
	})
}

// newSuppressed returns the commands of operators about suppressed addresses.
func newSuppressed(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "suppressed", Short: "List suppressed addresses", Args: cobra.NoArgs,
		Long: "Lists the e-mail addresses that receive no mail, because their server has rejected one for good. \"lift\" ends a suppression. Operators only.",
	}
	client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListSuppressedAddresses(ctx, &oapi.ListSuppressedAddressesParams{Limit: size, Cursor: cursor})
		}, nil
	}, func(_ *output.Console, all ...oapi.SuppressedAddress) output.Table {
		t := output.Table{Head: []string{"SINCE", "ADDRESS", "REASON", "ID"}}
		for _, s := range all {
			t.Add("suppressed-address/"+s.Id.String(), output.FormatTime(s.CreatedAt), output.CellText(s.Address), output.CellText(s.Reason), s.Id.String())
		}
		return t
	})
	cmd.AddCommand(newLift(a))
	return cmd
}

func newLift(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "lift ID", Short: "Lift suppression", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			those, err := parseIDs(args)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.LiftSuppression(ctx, those[0], nil, oapi.LiftSuppression{Reason: reason}, once)
			})
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}
