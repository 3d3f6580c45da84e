package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewNotifications returns the commands of a user about notifications.
func NewNotifications(a *output.Console) *cobra.Command {
	cmd := output.Group("notifications", "Show notifications", newNotificationList(a), newNotificationRead(a), newPreferences(a), newTestNotification(a), newSuppressed(a))
	cmd.Long = "With --follow the command prints each new notification until Ctrl-C. It continues after a lost connection."
	var follow bool
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new notifications until Ctrl-C")
	overview := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !follow {
			return overview(cmd, args)
		}
		return followNotifications(cmd.Context(), a)
	}
	return cmd
}

// printed has the time of the last change of each printed notification.
type printed map[uuid.UUID]time.Time

// followNotifications prints each notification once for each change. After a lost connection it lists the unread
// notifications, because the stream does not repeat them.
func followNotifications(ctx context.Context, a *output.Console) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	var before printed
	params := oapi.ListEventsParams{Scope: new(oapi.ListEventsParamsScopeTenant)}
	for {
		lost := before != nil
		err := c.StreamItems(ctx, params, func() {}, func(one client.Event) (err error) {
			switch {
			case one.Type == client.KindUnread && before == nil, one.Type == client.KindUnread && lost:
				lost = false
				before, err = before.catchUp(ctx, a, c)
			case one.Type == client.KindNotification:
				var n oapi.Notification
				if err = json.Unmarshal(one.Raw, &n); err == nil {
					err = before.print(a, n)
				}
			}
			return err
		})
		var known *output.CommandError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &known) && known.Exit != output.ExitFailure:
			return err // signed out or denied: another try gets the same response
		}
		a.Notify("%s the stream ended; connecting again", output.SymbolWarn)
		if err := client.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// catchUp lists the unread notifications. It prints those that are new since the last list; the first list prints none.
func (p printed) catchUp(ctx context.Context, a *output.Console, c *client.Client) (printed, error) {
	l, err := client.Send[oapi.NotificationList](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.ListNotifications(ctx, &oapi.ListNotificationsParams{Unread: output.PointerOrNil(true)})
	})
	if err != nil {
		return p, err
	}
	first := p == nil
	if first {
		p = printed{}
	}
	for _, n := range slices.Backward(l.Value.Items) {
		if first {
			p[n.Id] = n.UpdatedAt
		} else if err := p.print(a, n); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p printed) print(a *output.Console, n oapi.Notification) error {
	if p == nil || n.UpdatedAt.Equal(p[n.Id]) {
		return nil
	}
	p[n.Id] = n.UpdatedAt
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encoding notification: %w", err)
	}
	switch a.Format() {
	case "json": // one line each, as for events
		_, err = a.Out.Write(append(data, '\n'))
		return err
	case "yaml", "name":
		return a.Show(data, output.Table{Names: []string{"notification/" + n.Id.String()}})
	}
	_, err = fmt.Fprintf(a.Out, "%-20s  %-8s  %s\n", output.FormatTime(n.UpdatedAt), n.Severity, output.CellText(n.Message))
	return err
}

func newNotificationList(a *output.Console) *cobra.Command {
	var unread bool
	cmd := &cobra.Command{Use: "list", Short: "List notifications", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&unread, "unread", false, "only unread ones")
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListNotifications(ctx, &oapi.ListNotificationsParams{Limit: size, Cursor: cursor, Unread: output.PointerOrNil(unread)})
		}, nil
	}, func(_ *output.Console, all ...oapi.Notification) output.Table {
		t := output.Table{Head: []string{"AT", "SEVERITY", "READ", "COUNT", "MESSAGE"}, Wide: []string{"KIND", "ID", "RESOURCE", "CORRELATION"}}
		for _, n := range all {
			read := "no"
			if n.ReadAt != nil {
				read = "yes"
			}
			t.Add("notification/"+n.Id.String(), output.FormatTime(n.UpdatedAt), string(n.Severity), read, strconv.Itoa(n.Count), output.CellText(n.Message), n.Kind, n.Id.String(), n.ResourceUrn, n.CorrelationId)
		}
		return t
	})
}

func newNotificationRead(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "read [ID ...]", Short: "Mark notifications as read", Long: "Marks the notifications with these ids as read, or all without an id.",
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := parseIDs(args)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			body := oapi.ReadNotifications{}
			if len(chosen) > 0 {
				body.NotificationIds = &chosen
			}
			_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.MarkNotificationsRead(ctx, nil, body, once)
			})
			return err
		},
	}
}
