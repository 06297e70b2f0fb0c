package processor

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
)

const (
	fieldControlPath = "control_path"
	fieldTable       = "table"
	fieldGranularity = "granularity"
	fieldOperator    = "operator"
	fieldFrom        = "from"
	fieldUntil       = "until"
	fieldOnNotFinal  = "on_not_final"

	operatorAdvance = "advance"
	operatorCheck   = "check"

	notFinalFail = "fail"
	notFinalFlag = "flag"

	metaFinal          = "final"
	metaFinalizedUntil = "finalized_until"
)

func finalizeSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Stable().
		Categories("Utility").
		Summary("Publishes how far a table is complete, or asks.").
		Description(`
### Advance

Placed in the `+"`after_commit`"+` list of a `+"`delta_lake`"+` output, it takes the record batches that are in the table and moves `+"`finalized_until`"+` in a control table to the begin of
the period that holds the window's end. Every period before `+"`finalized_until`"+` is complete: no further commit of the source can arrive in it. The verdict never goes back,
is written after the data, and is never ahead of it. A window without changes moves it, too, so that a quiet table becomes final.

`+"`complete_from`"+` beside it says where completeness begins, since CDC holds no older changes or the stream started later; no period before it is ever final. `+"`gap`"+` names stretches of time whose changes
were lost.

A record batch that no output has written yet is refused. Other messages pass.

### Check

With `+"`operator: check`"+` any message passes if its period is final. Otherwise it is marked as failed, or with `+"`on_not_final: flag`"+` gets the metadata `+"`final`"+` with one of the values true, false and over_gap.
Metadata `+"`finalized_until`"+` holds the verdict. A job outside asks the program: `+"`rpconnect-mssqlcdc is-final --control … --table … --until …`"+`.
`).
		Fields(
			service.NewStringField(fieldControlPath).Description("Where the control table is, a Delta table, created if it does not exist: "+storage.PathHelp+".").Example("./lake/_control").Example("s3://lake/_control"),
			service.NewInterpolatedStringField(fieldTable).Description("The name of the target in the control table.").
				Default(`${! @database_schema }.${! @table }`),
			service.NewStringAnnotatedEnumField(fieldOperator, map[string]string{
				operatorAdvance: "Move the verdict by what was committed.",
				operatorCheck:   "Ask for the verdict.",
			}).Description("What to do.").Default(operatorAdvance),
			service.NewStringEnumField(fieldGranularity, "minute", "hour", "day").Description("Advance: the length of the periods.").Default("hour"),
			service.NewInterpolatedStringField(fieldUntil).Description("Check: the end of the period that is asked about (exclusive), as a time of RFC 3339.").Optional().
				Example(`${! this.day.ts_parse("2006-01-02").ts_add_iso8601("P1D") }`),
			service.NewInterpolatedStringField(fieldFrom).Description("Check: the begin of that period. Without it, only a period that ends before completeness begins is told apart.").Optional().Advanced(),
			service.NewStringAnnotatedEnumField(fieldOnNotFinal, map[string]string{
				notFinalFail: "Mark the message as failed. A period over a gap fails, too.",
				notFinalFlag: "Let it pass with the metadata `final`.",
			}).Description("Check: what happens to a message whose period is not final.").Default(notFinalFail),
			storage.Field(),
		).
		LintRule(`root = if this.operator.or("advance") == "check" && this.until.or("") == "" { [ "field until is required with operator: check" ] }`).
		Example("Verdict of a table", "Hours of `orders` become final as soon as everything before their end is committed.", `
output:
  delta_lake:
    path: ./lake/orders
    app_id: orders
    after_commit:
      - finalize:
          control_path: ./lake/_control
          granularity: hour
`)
}
