package main

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// prices makes a record batch as a database driver or a Parquet reader would
// return it: n rows of a day number, a price and a volume, without nulls.
func prices(n int) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "day", Type: arrow.PrimitiveTypes.Int32},
		{Name: "price", Type: arrow.PrimitiveTypes.Float64},
		{Name: "volume", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	day := b.Field(0).(*array.Int32Builder)
	price := b.Field(1).(*array.Float64Builder)
	volume := b.Field(2).(*array.Int64Builder)
	for i := range n {
		day.Append(int32(i))
		price.Append(100 + float64(i)/4)
		volume.Append(int64(1000 * i))
	}
	return b.NewRecordBatch()
}

// column returns the column of that name.
func column(rec arrow.RecordBatch, name string) (arrow.Array, error) {
	at := rec.Schema().FieldIndices(name)
	if len(at) == 0 {
		return nil, fmt.Errorf("no column %q", name)
	}
	col := rec.Column(at[0])
	if col.NullN() > 0 {
		return nil, fmt.Errorf("column %q has nulls, which an array cannot say", name)
	}
	return col, nil
}
