package processor

import "github.com/redpanda-data/benthos/v4/public/service"

const fieldProcessors = "processors"

func eachRowSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Stable().
		Categories("Composition").
		Summary("Runs processors on the rows of a record batch and packs what they leave into a record batch again.").
		Description(`
A record batch of the `+"`mssql_cdc`"+` input is one message; a mapping on it would see null. This processor makes one message of each row, with the body and the metadata that `+"`format: rows`"+` gives them, runs
the given processors, and packs the rows that are left. The position of the window stays, so delivery stays exactly once. Rows that were filtered out are counted in the facts.

- A field that a processor removes becomes NULL: the column stays in the table.
- A field that a processor adds becomes a column, typed by its values: integer, float, boolean, text, time, bytes; objects and arrays as JSON text.
- A value that its column cannot hold without loss fails the batch, and so does a row that becomes several.
- A failed row fails the batch: nothing of it is written, and it is sent again. Filter such rows, or repair them in a `+"`catch`"+`.

Messages that are no record batch go through the processors as they are.
`).
		Field(service.NewProcessorListField(fieldProcessors).Description("The processors to run on the rows.")).
		Example("Filter and mask", "Test customers are left out and mail addresses are hashed.", `
pipeline:
  processors:
    - each_row:
        processors:
          - mapping: root = if this.customer == "TEST" { deleted() }
          - mutation: root.email = this.email.or("").hash("sha256").encode("hex")
`)
}
