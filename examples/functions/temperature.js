// Functions of a component that was not written for Toolhost.
const celsius = ({ degrees, scale }) => (scale === "celsius" ? degrees : (degrees - 32) / 1.8);

export const convert = {
  convert(reading) {
    const degrees = celsius(reading);
    if (degrees < -273.15) throw "below absolute zero";
    return reading.scale === "celsius"
      ? { degrees: degrees * 1.8 + 32, scale: "fahrenheit" }
      : { degrees, scale: "celsius" };
  },
  average(readings) {
    if (readings.length === 0) return undefined;
    return readings.map(celsius).reduce((sum, one) => sum + one) / readings.length;
  },
};
