package money

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads an amount as Format prints it, and also without its currency or its decimals: "EUR
// 12.34", "12.3", "12". Parse never rounds: an amount with more decimals than the minor unit is an
// error. The currency is empty if the text has none.
func Parse(text string) (currency string, m Minor, err error) {
	number := strings.TrimSpace(text)
	if before, after, found := strings.Cut(number, " "); found {
		currency, number = strings.ToUpper(before), strings.TrimSpace(after)
		if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return "", 0, unread(text)
		}
	}
	digits, negative := strings.CutPrefix(number, "-")
	whole, part, dotted := strings.Cut(digits, ".")
	if !counts(whole) || dotted && (!counts(part) || len(part) > 2) {
		return "", 0, unread(text)
	}
	all := whole + (part + "00")[:2]
	if negative {
		all = "-" + all
	}
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%q: %w", text, ErrOverflow)
	}
	return currency, Minor(n), nil
}

func counts(digits string) bool { return digits != "" && strings.Trim(digits, "0123456789") == "" }

func unread(text string) error {
	return fmt.Errorf("%q is no amount like 50, 12.34 or EUR 12.34", text)
}
