//! Charts with two logarithmic axes.

use std::path::Path;

use plotters::prelude::*;

pub struct Chart {
    pub file: &'static str,
    pub title: &'static str,
    pub x_label: &'static str,
    /// Unit of the vertical axis.
    pub unit: &'static str,
    pub series: Vec<Series>,
}

pub struct Series {
    pub name: &'static str,
    pub points: Vec<(u32, f64)>,
}

const SIZE: (u32, u32) = (640, 360);
/// Colours that are told apart on a light and a dark page, and by people who cannot see red and green.
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
];

impl Series {
    pub fn new(name: &'static str, points: Vec<(u32, f64)>) -> Self {
        Self { name, points }
    }
}

impl Chart {
    pub fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        let file = dir.join(self.file);
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let first = points().map(|(x, _)| *x).min().map_or(1.0, f64::from);
        let last = points().map(|(x, _)| *x).max().map_or(1.0, f64::from);
        // Whole decades, so that a flat line looks flat.
        let low = points().map(|(_, y)| *y).fold(f64::MAX, f64::min);
        let high = points().map(|(_, y)| *y).fold(f64::MIN, f64::max);
        let low = 10_f64.powf(low.log10().floor());
        let high = 10_f64.powf(high.log10().ceil());
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((first..last).log_scale(), (low..high).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(self.x_label)
            .y_desc(self.unit)
            .label_style(("sans-serif", 13))
            .x_label_formatter(&|value| axis_label(*value))
            .y_label_formatter(&|value| axis_label(*value))
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let points = series.points.iter().map(|(x, y)| (f64::from(*x), *y));
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
                .label(series.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .label_font(("sans-serif", 13))
            .position(SeriesLabelPosition::UpperLeft)
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// A value at an axis, short enough for the edge of a chart.
fn axis_label(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => value.to_string(),
    }
}
