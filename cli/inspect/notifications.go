package inspect

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewNotifications returns the commands of a user about notifications.
func NewNotifications(a *output.Console) *cobra.Command {
	return output.Group("notifications", "Show notifications", newNotificationList(a), newNotificationRead(a))
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
		t := output.Table{Head: []string{"AT", "SEVERITY", "READ", "COUNT", "MESSAGE"}, Wide: []string{"KIND", "ID", "RESOURCE"}}
		for _, n := range all {
			read := "no"
			if n.ReadAt != nil {
				read = "yes"
			}
			t.Add("notification/"+n.Id.String(), output.FormatTime(n.UpdatedAt), string(n.Severity), read, strconv.Itoa(n.Count), output.CellText(n.Message), n.Kind, n.Id.String(), n.ResourceUrn)
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
