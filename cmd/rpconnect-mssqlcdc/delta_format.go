package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// page prints text in aligned columns and keeps the first error.
type page struct {
	w *tabwriter.Writer
}

func newPage(w io.Writer) page { return page{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// row prints cells; the last one is as long as it wants.
func (p page) row(cells ...string) {
	// The tabwriter keeps its first error and gives it to Flush.
	_, _ = fmt.Fprintln(p.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// fact prints a name and a value, unless there is none.
func (p page) fact(name, value string) {
	if value != "" {
		p.row(name, value)
	}
}

func (p page) end() error { return p.w.Flush() }

// humanBytes is a size in a unit of powers of 1000.
func humanBytes(n int64) string {
	if n < 1000 && n > -1000 {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		value /= 1000
		if value < 999.95 && value > -999.95 || unit == "PB" {
			return fmt.Sprintf("%.1f %s", value, unit)
		}
	}
	return ""
}

// humanCount is a number with its thousands apart.
func humanCount(n int64) string {
	if n < 0 {
		return "-" + humanCount(-n)
	}
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted is a number of things.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanCount(n) + " " + thing + "s"
}

func humanTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func humanSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

var dayOrWeek = regexp.MustCompile(`^(\d{1,6})([dw])$`)

// parseRetention reads a retention: "36h", "7d", "2w", or as table properties have
// it, "interval 7 days".
func parseRetention(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	if m := dayOrWeek.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, err
		}
		if m[2] == "w" {
			n *= 7
		}
		if n > 106_000 {
			return 0, fmt.Errorf("%s is longer than 290 years", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	if strings.HasPrefix(strings.ToLower(text), "interval ") {
		return delta.ParseInterval(text)
	}
	return 0, fmt.Errorf(`%q is no duration: want one like 36h, 7d or 2w`, text)
}
